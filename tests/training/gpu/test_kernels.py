"""The kernels against a slow, obvious version of themselves, in float64."""

from __future__ import annotations

import pytest
import torch

DEVICE = "cuda"


def packed(longest: int, dtype: torch.dtype) -> tuple[list[torch.Tensor], torch.Tensor]:
    torch.manual_seed(longest)
    lengths = torch.randint(1, longest + 1, (23,))
    lengths[3] = 0
    starts = torch.cat([torch.zeros(1), lengths.cumsum(0)]).int().to(DEVICE)
    states = [torch.randn(int(starts[-1]), 4, 32, device=DEVICE, dtype=dtype, requires_grad=True) for _ in range(3)]
    return states, starts


def attention_by_hand(states: list[torch.Tensor], starts: torch.Tensor, scale: float) -> torch.Tensor:
    q, k, v = states
    out = []
    for start, end in zip(starts[:-1].tolist(), starts[1:].tolist(), strict=True):
        scores = torch.einsum("ihd,jhd->hij", q[start:end], k[start:end]) * scale
        out.append(torch.einsum("hij,jhd->ihd", torch.softmax(scores, -1), v[start:end]))
    return torch.cat(out)


def apart(found: torch.Tensor, wanted: torch.Tensor) -> float:
    return float((found.double() - wanted).norm() / wanted.norm())


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-6), (torch.bfloat16, 5e-3)])
@pytest.mark.parametrize("longest", [7, 32, 64])
def test_attention(longest: int, dtype: torch.dtype, tolerance: float) -> None:
    from nearer.encoder.kernels import short_attention

    states, starts = packed(longest, dtype)
    seed = torch.zeros(1, dtype=torch.int64, device=DEVICE)
    # stacked as transformers hands them over: not contiguous in the way the kernel reads
    qkv = torch.stack([each.transpose(0, 1) for each in states], dim=2).permute(1, 2, 0, 3)
    out = short_attention(qkv, starts, seed, longest, 0.0, 0.2)
    exact = [each.detach().double().requires_grad_() for each in states]
    wanted = attention_by_hand(exact, starts, 0.2)
    upstream = torch.randn_like(out)
    assert apart(out.detach(), wanted.detach()) < tolerance
    gradients = torch.autograd.grad(out, states, upstream)
    for found, right in zip(gradients, torch.autograd.grad(wanted, exact, upstream.double()), strict=True):
        assert apart(found, right) < tolerance


def test_attention_dropout_is_seeded_unbiased_and_the_same_backwards() -> None:
    from nearer.encoder.kernels import short_attention

    (q, k, v), starts = packed(32, torch.float32)

    def drop(seed: int, rate: float = 0.25) -> torch.Tensor:
        qkv = torch.stack([q, k, v], dim=1)
        return short_attention(qkv, starts, torch.tensor([seed], device=DEVICE), 32, rate, 0.2)

    once, again, other = drop(1), drop(1), drop(2)
    assert torch.equal(once, again)
    assert not torch.equal(once, other)
    # linear in v: with the same masks backwards, <g, out> = <dv, v>
    g = torch.randn_like(once)
    (dv,) = torch.autograd.grad(once, v, g)
    assert float((g * once).sum().detach()) == pytest.approx(float((dv * v).sum().detach()), rel=1e-4)
    mean = torch.stack([drop(seed) for seed in range(400)]).mean(dim=0)
    whole = drop(0, rate=0.0)
    assert apart(mean.detach(), whole.detach().double()) < 0.06


@pytest.mark.parametrize("shape", [(3,), (1, 777, 96), (5000, 13)])
def test_keep(shape: tuple[int, ...]) -> None:
    from nearer.encoder.kernels import keep

    like = torch.empty(shape, device=DEVICE, dtype=torch.bfloat16)
    first, same, other = (keep(like, torch.tensor([seed], device=DEVICE), 0.1) for seed in (7, 7, 8))
    assert first.shape == shape
    assert torch.equal(first, same)
    if like.numel() > 1000:
        assert float(first.float().mean()) == pytest.approx(0.9, abs=0.01)
        both = (first & other).float().mean()  # independent: 0.81
        assert float(both) == pytest.approx(0.81, abs=0.01)


def test_table_gradient() -> None:
    from nearer.encoder.kernels import table_gradient

    torch.manual_seed(0)
    ids = torch.randint(0, 400, (3000,), device=DEVICE)
    ids[::3] = 7  # one id with a thousand rows
    upstream = torch.randn(3000, 300, device=DEVICE, dtype=torch.bfloat16)
    found = table_gradient(upstream, ids, 5000, 9)
    wanted = torch.zeros(5000, 300, dtype=torch.float64, device=DEVICE).index_add_(0, ids, upstream.double())
    wanted[9] = 0
    torch.testing.assert_close(found.double(), wanted, atol=1e-4, rtol=1e-5)
    assert torch.equal(found, table_gradient(upstream, ids, 5000, 9))


@pytest.mark.parametrize("copied", [True, False])
@pytest.mark.parametrize("decay", [0.0, 0.1])
def test_adam_is_torch_s(copied: bool, decay: float) -> None:
    from torch.optim import AdamW

    from nearer.training.gpu.adam_kernel import Trained, Update
    from nearer.training.step import make_moments

    torch.manual_seed(0)
    shapes = [(300, 40), (7,), (5000,), (64, 96)]
    ours = [torch.nn.Parameter(torch.randn(shape, device=DEVICE)) for shape in shapes]
    theirs = [torch.nn.Parameter(weight.detach().clone()) for weight in ours]
    rate = torch.tensor(0.0, device=DEVICE)
    mine = AdamW(ours, lr=rate, weight_decay=decay, fused=True, capturable=True)
    right = AdamW(theirs, lr=1e-2, weight_decay=decay)
    make_moments(mine)
    dtype = torch.bfloat16 if copied else torch.float32
    copies = [weight.detach().to(torch.bfloat16) if copied else None for weight in ours]
    norm = torch.zeros((), device=DEVICE)
    for step in range(6):
        for group in (*mine.param_groups, *right.param_groups):
            if isinstance(group["lr"], torch.Tensor):
                group["lr"].fill_(1e-2 / (step + 1))
            else:
                group["lr"] = 1e-2 / (step + 1)
        gradients = [torch.randn_like(weight).to(dtype) * 10 ** (step - 3) for weight in ours]
        trained = [Trained(*each) for each in zip(ours, gradients, copies, strict=True)]
        update = Update(trained, mine, clip=1.0)
        update.launch(update.tables(norm.device), norm)
        for weight, gradient in zip(theirs, gradients, strict=True):
            weight.grad = gradient.float()
        wanted = torch.nn.utils.clip_grad_norm_(theirs, 1.0)
        right.step()
        torch.testing.assert_close(norm, wanted, rtol=1e-5, atol=1e-6)
        for weight, same, copy in zip(ours, theirs, copies, strict=True):
            torch.testing.assert_close(weight, same, rtol=1e-5, atol=1e-6)
            if copy is not None:
                torch.testing.assert_close(copy, weight.detach().to(torch.bfloat16), rtol=0, atol=0)


@pytest.mark.parametrize(
    ("rows", "size", "values"), [(3, 1, 2), (2, 5, 2), (5, 2048, 40), (2, 100_003, 10**6), (4, 5000, 1)]
)
def test_mean_ranks_with_ties(rows: int, size: int, values: int) -> None:
    from scipy.stats import rankdata

    from nearer.teachers.rank_vectors import average_ranks

    generator = torch.Generator().manual_seed(size)
    lists = (torch.randint(values, (rows, size), generator=generator).float() - values / 2) / 7
    found = average_ranks(lists.to(DEVICE))
    assert torch.equal(found.cpu().double(), torch.from_numpy(rankdata(lists.numpy(), axis=1) - 1))
