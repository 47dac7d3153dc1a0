"""Views of unequal lengths pass apart, and nothing else changes by it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch

from nearer.encoder import padded
from nearer.methods.contract import Inputs, Pass
from nearer.training.compute import Computation, unseeded
from nearer.training.prepared import prepare
from nearer.training.trainer import Trainer


def rows(count: int, longest: int, seed: int) -> list[np.ndarray]:
    draw = np.random.default_rng(seed)
    return [draw.integers(5, 30, size=draw.integers(3, longest + 1)) for _ in range(count)]


@pytest.fixture
def trainer(make_trainer: Callable[..., Trainer]) -> Trainer:
    return make_trainer("bert", head=False, pooling="mean")


@pytest.mark.parametrize(("longest", "passes"), [((4, 16), 2), ((15, 16), 1), ((4, 5, 16), 3)])
def test_as_many_passes_as_padding_asks_for(trainer: Trainer, longest: tuple[int, ...], passes: int) -> None:
    sides = {str(number): Pass([*rows(7, most, number), np.full(most, 7)]) for number, most in enumerate(longest)}
    plan = prepare(Inputs(sides), trainer.layouts, [8]).plan
    assert len(plan.portions) == passes
    assert plan.names == tuple(sides)
    assert [each for group in plan.groups for each in group.passes] == [(name, 8) for name in sides]


def test_loss_and_gradients_are_those_of_one_pass(trainer: Trainer, monkeypatch: pytest.MonkeyPatch) -> None:
    inputs = Inputs({"titles": Pass(rows(8, 4, 0)), "texts": Pass(rows(8, 16, 1))})
    found = []
    for waste in (1.0, 100.0):
        monkeypatch.setattr(padded, "WASTE", waste)
        prepared = prepare(inputs, trainer.layouts, [8])
        assert len(prepared.plan.portions) == (2 if waste == 1.0 else 1)
        trainer.model.zero_grad()
        computation = Computation(trainer.working, trainer.method, trainer.layouts)
        losses = computation.backward(prepared.plan, prepared.tensors, 1.0, unseeded)
        gradients = [weight.grad.clone() for weight in trainer.parameters if weight.grad is not None]
        found.append((losses.total, gradients))
    (apart, its), (joined, their) = found
    torch.testing.assert_close(apart, joined)
    assert its
    for our, other in zip(its, their, strict=True):
        torch.testing.assert_close(our, other, rtol=1e-4, atol=1e-6)
