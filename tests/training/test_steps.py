"""Steps taken in other ways than the plainest: packed, in bfloat16, in pieces. They must learn the same."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from nearer.encoder import Encoder
from nearer.encoder.packed_attention import FusedSelfAttention
from nearer.encoder.precision import has_bfloat16_products
from nearer.training.trainer import Trainer
from nearer.training.working_copy import WorkingCopy, layers_of

# A processor without instructions for it takes some hundred times as long.
HAS_BF16 = has_bfloat16_products(torch.device("cpu"))
STEPS = 20  # an epoch with its last batch, which is smaller
STEPS_IN_BF16 = STEPS if HAS_BF16 else 5
NEEDS_BF16 = pytest.mark.skipif(not HAS_BF16, reason="this processor has no instructions for bf16")
TakeSteps = Callable[[Trainer, int], torch.Tensor]


def pack(trainer: Trainer, dtype: torch.dtype = torch.float32) -> Trainer:
    """As on a GPU, but with the attention that runs anywhere."""
    trainer.layouts = trainer._layouts(packed=True)
    trainer.working = WorkingCopy(trainer.model, dtype=dtype, packed=True, kernels=False)
    trainer.take.computation.working = trainer.working
    trainer.take.computation.layouts = trainer.layouts
    return trainer


SHAPES_OF_RUNS = [
    {},
    {"pooling": "mean"},
    {"pooling": "first_last_mean", "head": False},
    {"data": "triplets", "hard_negative_weight": 2.0},
    {"mlm_weight": 0.5},
    {"two_encoders": True},
    {"accumulation": 3},
]


@pytest.mark.parametrize("settings", [*SHAPES_OF_RUNS, {"kind": "roberta"}, {"kind": "distilbert"}], ids=str)
def test_packed_steps_are_padded_steps(
    settings: dict[str, Any], make_trainer: Callable[..., Trainer], take_steps: TakeSteps
) -> None:
    packed, padded = pack(make_trainer(**settings)), make_trainer(**settings)
    found, wanted = take_steps(packed, STEPS), take_steps(padded, STEPS)
    torch.testing.assert_close(found[:10], wanted[:10], atol=1e-4, rtol=1e-3)
    torch.testing.assert_close(found[:, 0], wanted[:, 0], atol=2e-2, rtol=1e-2)


@pytest.mark.parametrize("settings", SHAPES_OF_RUNS, ids=str)
def test_in_pieces_as_at_once(
    settings: dict[str, Any], make_trainer: Callable[..., Trainer], take_steps: TakeSteps
) -> None:
    pieces, whole = make_trainer(**settings, piece=5), make_trainer(**settings)
    found, wanted = take_steps(pieces, STEPS), take_steps(whole, STEPS)
    torch.testing.assert_close(found[:10], wanted[:10], atol=1e-4, rtol=1e-3)
    torch.testing.assert_close(found[:, 0], wanted[:, 0], atol=2e-2, rtol=1e-2)


@pytest.mark.parametrize("settings", [{"teachers": ["mpnet"]}, {"query_max_length": 4, "loss": "list_mle"}], ids=str)
def test_steps_on_lists_packed_and_in_pieces(
    settings: dict[str, Any], make_trainer: Callable[..., Trainer], take_steps: TakeSteps
) -> None:
    """Short queries and long passages, several of them a record."""
    settings = {"method": "lists", "data": "scored", "pooling": "mean", "head": False, **settings}
    sizes = {"batch_size": 4, "passages_per_query": 4}
    wanted = take_steps(make_trainer(**settings, **sizes), 8)
    for other in (pack(make_trainer(**settings, **sizes)), make_trainer(**settings, **sizes, piece=7)):
        torch.testing.assert_close(take_steps(other, 8), wanted, atol=1e-4, rtol=1e-3)


def test_a_piece_meets_the_same_noise_again(make_trainer: Callable[..., Trainer], take_steps: TakeSteps) -> None:
    """One piece as large as the batch: its second pass must have the dropout masks of its first."""
    settings = {"dropout": 0.3, "max_steps": 20}
    found = take_steps(make_trainer(**settings, piece=16), 20)
    torch.testing.assert_close(found, take_steps(make_trainer(**settings), 20), atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize(
    "settings",
    [
        *SHAPES_OF_RUNS[:2],
        *[pytest.param(settings, marks=NEEDS_BF16) for settings in SHAPES_OF_RUNS[2:]],
        {"kind": "mobilebert"},
        pytest.param({"kind": "mpnet"}, marks=NEEDS_BF16),
    ],
    ids=str,
)
def test_bfloat16_steps_stay_near_float32_steps(
    settings: dict[str, Any], make_trainer: Callable[..., Trainer], take_steps: TakeSteps
) -> None:
    settings = {**settings, "learning_rate": 2e-5}  # a random model learns by leaps, which rounding sets off
    lower, full = make_trainer(**settings, precision="bf16"), make_trainer(**settings, precision="float32")
    found, wanted = take_steps(lower, STEPS_IN_BF16), take_steps(full, STEPS_IN_BF16)
    torch.testing.assert_close(found[0, 0], wanted[0, 0], atol=0.05, rtol=0.05)
    assert float((found[:, 0] - wanted[:, 0]).abs().mean()) < 0.03
    assert {parameter.dtype for parameter in lower.model.parameters()} == {torch.float32}


def _first_gradients(trainer: Trainer, take_steps: TakeSteps) -> list[torch.Tensor]:
    """Of the second block's three projections, from the optimiser's memory of the first step."""
    take_steps(trainer, 1)
    attention = trainer.model["encoder"].backbone.encoder.layer[1].attention.self
    return [trainer.optimiser.state[getattr(attention, name).weight]["exp_avg"] for name in ("query", "key", "value")]


@pytest.mark.parametrize("settings", [{"pooling": "mean"}, {"mlm_weight": 0.5}, {"kind": "roberta"}], ids=str)
def test_fused_projections_compute_what_three_do(
    settings: dict[str, Any], make_trainer: Callable[..., Trainer], take_steps: TakeSteps
) -> None:
    fused, padded = pack(make_trainer(**settings), torch.bfloat16), make_trainer(**settings, precision="bf16")
    first = [_first_gradients(pack(make_trainer(**settings), torch.bfloat16), take_steps)]
    first.append(_first_gradients(make_trainer(**settings, precision="bf16"), take_steps))
    for found, wanted in zip(*first, strict=True):
        # small ones, so bfloat16 shows; those of another projection would be off by more than 1
        assert float((found - wanted).norm() / wanted.norm()) < 0.5
    assert any(isinstance(module, FusedSelfAttention) for module in fused.working.model.modules())
    found, wanted = take_steps(fused, STEPS_IN_BF16), take_steps(padded, STEPS_IN_BF16)
    assert float((found[:, 0] - wanted[:, 0]).abs().mean()) < 0.03
    before, after = (trainer.model["encoder"].backbone.encoder.layer[1].attention.self for trainer in (padded, fused))
    for name in ("query", "key", "value"):  # all three have moved, and alike
        moved, right = getattr(after, name).weight, getattr(before, name).weight
        torch.testing.assert_close(moved, right, atol=3e-3, rtol=0)
    fresh = make_trainer(**settings).model["encoder"].backbone.encoder.layer[1].attention.self
    assert not torch.allclose(fresh.key.weight, after.key.weight, atol=1e-4)


def test_a_working_copy_shares_or_copies_every_weight(make_trainer: Callable[..., Trainer]) -> None:
    trainer = make_trainer(mlm_weight=0.1)
    copy = WorkingCopy(trainer.model, dtype=torch.bfloat16, packed=False, kernels=False)
    trained = dict(trainer.model.named_parameters())
    tables = {id(module.weight) for module in trainer.model.modules() if isinstance(module, torch.nn.Embedding)}
    assert {id(copied.master) for copied in copy.copies} == {id(p) for p in trained.values() if id(p) not in tables}
    with torch.no_grad():
        for parameter in trained.values():
            parameter += 1
    copy.renew()
    for copied in copy.copies:
        torch.testing.assert_close(copied.values, copied.master.detach().to(torch.bfloat16))


@pytest.mark.parametrize("kind", ["bert", "roberta", "distilbert", "mpnet", "mobilebert"])
def test_the_blocks_of_a_backbone_are_found(kind: str, tiny_model: Callable[[str], Path]) -> None:
    encoder = Encoder.load(tiny_model(kind), pooling="cls", device="cpu")
    blocks = layers_of(encoder)
    assert len(blocks) == 3
    assert all(type(block).__name__.endswith(("Layer", "Block")) for block in blocks)
