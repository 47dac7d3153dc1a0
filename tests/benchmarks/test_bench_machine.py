"""What the processor can do at best: measured on a busy machine as on an idle one."""

from __future__ import annotations

import itertools

import pytest
import torch

from benchmarks import machine
from benchmarks.machine import CpuProduct, cpu_product


def test_the_fastest_counts_not_the_median() -> None:
    product = CpuProduct(1000, 2, (0.5, 0.02, 0.5, 0.5))
    assert product.rate == pytest.approx(2 * 1000**3 / 0.02)
    assert product.described == (
        "0.1 TFLOP/s (float32, 1000³, random, 2 threads, the best of 4; "
        "other programs ran: the median took 25.0 × as long)"
    )


def test_an_idle_machine_has_no_remark() -> None:
    described = CpuProduct(1000, 1, (0.02, 0.021)).described
    assert described == "0.1 TFLOP/s (float32, 1000³, random, 1 thread, the best of 2)"


def test_products_are_repeated_while_there_is_time() -> None:
    worked, now = itertools.count(), itertools.count()
    seconds = machine._cpu_seconds(lambda: next(worked), budget=7, clock=lambda: float(next(now)))
    assert seconds == (1.0,) * 7  # each takes one tick of this clock
    assert next(worked) == 8  # the first is not timed
    assert len(machine._cpu_seconds(lambda: None, budget=0)) == 5


def test_if_other_cores_are_taken_one_thread_is_the_fastest(monkeypatch: pytest.MonkeyPatch) -> None:
    usual = torch.get_num_threads()
    monkeypatch.setattr(machine, "CPU_SIZES", (8,))
    monkeypatch.setattr(torch, "get_num_threads", lambda: 3)
    asked: list[int] = []
    monkeypatch.setattr(torch, "set_num_threads", asked.append)
    monkeypatch.setattr(machine, "_cpu_seconds", lambda work, budget: (0.1,) if asked[-1] == 1 else (0.4,))
    assert cpu_product() == CpuProduct(8, 1, (0.1,))
    assert asked == [1, 3, 3]  # and at last as many as before
    monkeypatch.undo()
    assert torch.get_num_threads() == usual


def test_a_short_product_is_followed_by_a_larger_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "CPU_SIZES", (8, 16, 32))
    took = iter([0.001, 0.02] * 2)
    monkeypatch.setattr(machine, "_cpu_seconds", lambda work, budget: (next(took),))
    assert cpu_product().size == 8  # of 8 and 16: 32 is not tried
