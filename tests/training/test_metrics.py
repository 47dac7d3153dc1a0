"""Losses of many steps: their means, and nothing that is not a number goes unseen."""

from __future__ import annotations

import math

import pytest
import torch

from nearer.training.log import Metrics
from nearer.training.step import Readings

CPU = torch.device("cpu")


def readings(loss: float, mlm: float = 0.0, norm: float = 1.0) -> Readings:
    return Readings.of(["loss", "mlm"], [torch.tensor([loss, mlm])], torch.tensor(norm))


def test_means_are_over_the_steps_and_the_norm_is_the_last() -> None:
    metrics = Metrics(CPU)
    for loss, mlm, norm in ((1.0, 10.0, 5.0), (2.0, 30.0, 6.0), (6.0, 20.0, 7.0)):
        metrics.add(readings(loss, mlm, norm))
    [means] = metrics.look(12, wait=True)
    assert means.values == pytest.approx({"loss": 3.0, "mlm": 20.0, "gradient_norm": 7.0})
    assert means.step == 12
    assert means.finite


@pytest.mark.parametrize("wait", [True, False])
def test_on_the_cpu_everything_is_known_at_once(wait: bool) -> None:
    metrics = Metrics(CPU)
    metrics.add(readings(4.0))
    assert [means.values["loss"] for means in metrics.look(1, wait=wait)] == [4.0]


def test_nothing_is_read_twice() -> None:
    metrics = Metrics(CPU)
    metrics.add(readings(100.0))
    metrics.look(1, wait=True)
    assert metrics.look(1, wait=True) == []
    metrics.add(readings(2.0))
    metrics.add(readings(4.0))
    [means] = metrics.look(3, wait=False)
    assert (means.step, means.values["loss"]) == (3, 3.0)
    assert metrics.look(3, wait=True) == []


def test_before_the_first_step_there_is_nothing() -> None:
    assert Metrics(CPU).look(0, wait=True) == []


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("place", ["loss", "mlm", "norm"])
@pytest.mark.parametrize("step", [0, 4, 8])
def test_one_step_of_many_that_is_not_finite_is_seen(value: float, place: str, step: int) -> None:
    metrics = Metrics(CPU)
    for number in range(9):
        metrics.add(readings(**{"loss": 1.0, **({place: value} if number == step else {})}))
    [means] = metrics.look(9, wait=True)
    assert not means.finite
    metrics.add(readings(1.0))
    assert metrics.look(10, wait=True)[0].finite


def test_a_step_of_several_batches_reads_their_mean() -> None:
    batches = [torch.tensor([1.0, 2.0]), torch.tensor([3.0, 8.0])]
    read = Readings.of(["loss", "mlm"], batches, torch.tensor(0.5))
    assert dict(zip(read.names, read.values.tolist(), strict=True)) == {"loss": 2.0, "mlm": 5.0, "gradient_norm": 0.5}
