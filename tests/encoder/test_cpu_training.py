"""Dropout on a CPU, and attention under it, against torch's: the same values and gradients, and as much dropped."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.nn.functional import scaled_dot_product_attention

from nearer.encoder import Encoder
from nearer.encoder.cpu_training import (
    ATTENTION,
    AttentionUnderDropout,
    CpuDropout,
    cpu_attention,
    draw_kept,
    register,
    train_on_cpu,
)

SHAPE = (3, 2, 7, 5)  # batch, heads, tokens, size


@pytest.fixture
def inputs() -> list[torch.Tensor]:
    """Queries, keys, values as transformers gives them: views, not in order in memory."""
    torch.manual_seed(0)
    batch, heads, tokens, size = SHAPE
    parts = (torch.randn(batch, tokens, heads, size, dtype=torch.float64).transpose(1, 2) for _ in range(3))
    return [part.requires_grad_() for part in parts]


def masks() -> dict[str, torch.Tensor | None]:
    batch, _, tokens, _ = SHAPE
    real = torch.arange(tokens) < torch.tensor([[2], [7], [5]])
    square = real[:, None, None, :].expand(batch, 1, tokens, tokens)
    added = torch.zeros(square.shape, dtype=torch.float64).masked_fill(~square, -1e9)
    return {"none": None, "bool": square, "one for all": square[:1], "added": added}


@pytest.mark.parametrize("threads", [1, 2, 5])
@pytest.mark.parametrize("mask", masks())
def test_without_loss_it_is_torchs(inputs: list[torch.Tensor], mask: str, threads: int) -> None:
    """A rate so small that nothing is dropped: it is one of 65 536 parts at least, or none."""
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        ours = AttentionUnderDropout.apply(*inputs, masks()[mask], 1e-12, 0.3)
        torch.manual_seed(1)
        gradient = torch.randn_like(ours)
        found = torch.autograd.grad(ours, inputs, gradient)
    finally:
        torch.set_num_threads(before)
    theirs = scaled_dot_product_attention(*inputs, attn_mask=masks()[mask], scale=0.3)
    torch.testing.assert_close(ours, theirs, rtol=1e-9, atol=1e-11)
    for our, their in zip(found, torch.autograd.grad(theirs, inputs, gradient), strict=True):
        torch.testing.assert_close(our, their, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("mask", ["none", "bool"])
def test_gradients_under_dropout_are_those_of_the_loss(inputs: list[torch.Tensor], mask: str) -> None:
    def attend(*parts: torch.Tensor) -> torch.Tensor:
        torch.default_generator.manual_seed(5)  # the same is dropped each time
        found: torch.Tensor = AttentionUnderDropout.apply(*parts, masks()[mask], 0.3, 0.4)
        return found

    assert torch.autograd.gradcheck(attend, inputs)


def test_as_much_is_dropped_as_asked() -> None:
    torch.manual_seed(0)
    value = torch.ones(64, 4, 16, 8)
    query = torch.zeros_like(value)  # all weights alike: an output is the share that was kept
    found = AttentionUnderDropout.apply(query, query, value, None, 0.25, 1.0)
    assert float(found.mean()) == pytest.approx(1.0, abs=0.01)
    shares = found[..., 0] * 0.75  # of 16 weights each
    assert float(shares.std()) == pytest.approx((0.25 * 0.75 / 16) ** 0.5, rel=0.1)


@pytest.mark.parametrize("threads", [2, 3])
def test_bits_do_not_depend_on_threads(threads: int) -> None:
    torch.manual_seed(0)
    inputs = [torch.randn(9, 4, 33, 16) for _ in range(3)]
    found = []
    for count in (1, threads):
        before = torch.get_num_threads()
        torch.set_num_threads(count)
        torch.manual_seed(3)
        found.append(AttentionUnderDropout.apply(*inputs, None, 0.1, 0.25))
        torch.set_num_threads(before)
    assert torch.equal(*found)


class TestDropout:
    @pytest.mark.parametrize("rate", [0.05, 0.1, 0.5, 0.9])
    def test_each_value_has_the_same_chance(self, rate: float) -> None:
        """Also each of the four that share a draw."""
        torch.manual_seed(0)
        kept = draw_kept(torch.empty(50_000, 4), rate)
        shares = (kept > 0).double().mean(dim=0)
        assert shares.tolist() == pytest.approx([1 - rate] * 4, abs=4 * (rate * (1 - rate) / 50_000) ** 0.5)
        assert float(kept.mean()) == pytest.approx(1.0, abs=0.05)
        together = ((kept[:, 0] > 0) & (kept[:, 1] > 0)).double().mean()  # one says nothing of another
        assert float(together) == pytest.approx((1 - rate) ** 2, abs=0.01)
        assert float(kept.max()) == pytest.approx(1 / (1 - rate), rel=1e-3)

    @pytest.mark.parametrize("shape", [(), (1,), (3,), (5, 7), (0, 4)])
    def test_any_shape(self, shape: tuple[int, ...]) -> None:
        assert draw_kept(torch.empty(shape), 0.1).shape == shape

    def test_draws_follow_from_the_seed(self) -> None:
        found = []
        for seed in (1, 1, 2):
            torch.manual_seed(seed)
            found.append(draw_kept(torch.empty(100), 0.5))
        assert torch.equal(found[0], found[1])
        assert not torch.equal(found[0], found[2])

    def test_gradients_pass_where_values_do(self) -> None:
        values = torch.ones(1000, requires_grad=True)
        module = CpuDropout(0.3)
        dropped = module(values)
        dropped.sum().backward()  # type: ignore[no-untyped-call]
        assert torch.equal(dropped.detach(), values.grad)  # type: ignore[arg-type]
        assert 0.2 < float((dropped == 0).double().mean()) < 0.4

    def test_nothing_is_dropped_at_inference(self) -> None:
        values = torch.ones(100)
        assert torch.equal(CpuDropout(0.5).eval()(values), values)
        assert torch.equal(CpuDropout(0.0)(values), values)

    def test_all_of_an_encoders(self, tiny_model: Callable[[str], Path]) -> None:
        encoder = Encoder.load(tiny_model("bert"), pooling="mean", device="cpu")
        train_on_cpu(encoder)
        kinds = {type(module) for module in encoder.modules() if isinstance(module, nn.Dropout)}
        assert kinds == {CpuDropout}


class TestInAModel:
    @pytest.fixture
    def both(self, tiny_model: Callable[[str], Path]) -> list[Encoder]:
        register()
        encoders = [Encoder.load(tiny_model("bert"), pooling="mean", device="cpu") for _ in range(2)]
        encoders[1].backbone.config._attn_implementation = ATTENTION  # type: ignore[union-attr]
        return encoders

    @pytest.mark.parametrize("rate", [0.0, 1e-12])
    def test_vectors_are_the_same(self, both: list[Encoder], rate: float) -> None:
        rows = torch.tensor([[2, 9, 8, 7, 3], [2, 9, 3, 0, 0]])
        mask = (rows > 0).long()
        found = []
        for encoder in both:
            encoder.train()
            for module in encoder.modules():
                if isinstance(module, nn.Dropout):
                    module.p = rate
            found.append(encoder(rows, mask))
        torch.testing.assert_close(*found)

    def test_it_is_not_saved(self, both: list[Encoder], tmp_path: Path) -> None:
        both[1].save(tmp_path / "saved")
        assert ATTENTION not in "".join(path.read_text() for path in (tmp_path / "saved").rglob("*.json"))


def test_what_is_not_plain_attention_is_left_to_torch(inputs: list[torch.Tensor]) -> None:
    """Among them attention to earlier tokens only."""
    causal, _ = cpu_attention(nn.Identity(), *inputs, None, dropout=0.0, is_causal=True)
    theirs = scaled_dot_product_attention(*inputs, is_causal=True).transpose(1, 2)
    torch.testing.assert_close(causal, theirs)
