"""The command sweep."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from nearer.methods import SimCSE
from nearer.training.trainer import Trainer


@pytest.fixture
def sweep(nearer: Any, model: Path, tmp_path: Path) -> Callable[..., Any]:
    """`nearer sweep` with a recipe of two steps on the tiny model."""
    recipe = tmp_path / "own.yaml"
    recipe.write_text(
        f"method: simcse\nmodel: {model}\npooling: mean\nhead: false\nbatch_size: 4\nmax_length: 12\n"
        "learning_rate: 1e-3\nselect_on: everyday\ntest_on: everyday\nepochs: 100\n"
    )
    words = "the quick brown fox jumps over a lazy dog and rain comes far away".split()  # noqa: SIM905
    corpus = tmp_path / "corpus.txt"
    corpus.write_text("".join(f"{a} {b}\n" for a in words for b in words if a != b))

    def run(*arguments: object) -> Any:
        return nearer(
            "sweep", recipe, "--corpus", corpus, "--out", tmp_path / "sweep", "--max-steps", 2, *map(str, arguments)
        )

    return run


def test_a_table_with_mean_and_deviation_and_the_best_marked(sweep: Any, tmp_path: Path) -> None:
    done = sweep("--grid", "temperature=0.05,0.5", "--grid", "learning_rate=1e-3", "--seeds", "0,1")
    assert done.code == 0, done.err
    rows = [line for line in done.out.splitlines() if "±" in line]
    assert len(rows) == 2
    assert all(row.count("±") == 2 for row in rows)  # dev and test
    assert sum("best" in row for row in rows) == 1
    assert "own, seeds 0, 1" in done.out
    assert "4 of 4: temperature=0.5, learning_rate=0.001, seed 1" in done.err
    assert f"picture: {tmp_path / 'sweep' / 'curve.png'}" in done.err
    [model] = [line.removeprefix("best model: ") for line in done.err.splitlines() if line.startswith("best model: ")]
    assert Path(model, "nearer.json").exists()


def test_a_failed_run_is_in_the_table_and_in_the_exit_code(sweep: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    loss = SimCSE.loss

    def spoilt(self: SimCSE, *arguments: Any) -> Any:
        losses = loss(self, *arguments)
        return type(losses)(losses.total * (float("nan") if self.settings.temperature == 0.5 else 1.0), losses.parts)

    monkeypatch.setattr(SimCSE, "loss", spoilt)
    done = sweep("--grid", "temperature=0.05,0.5")
    assert done.code == 1
    [row] = [line for line in done.out.splitlines() if "failed with seed 0: step 1: the loss" in line]
    assert row.split("│")[2].strip() == "failed"
    assert "1 of 2 runs failed; the same command tries them again" in done.err
    assert "Traceback" not in done.err


def test_ctrl_c_says_how_to_go_on(sweep: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    advance = Trainer.advance

    def interrupting(trainer: Trainer) -> Any:
        os.kill(os.getpid(), signal.SIGINT)
        return advance(trainer)

    with monkeypatch.context() as patch:
        patch.setattr(Trainer, "advance", interrupting)
        stopped = sweep("--grid", "temperature=0.05,0.5")
    assert stopped.code == 130
    assert stopped.err.splitlines()[-1] == (
        "stopped in run 1 of 2 after its step 1; the same command goes on from there"
    )
    done = sweep("--grid", "temperature=0.05,0.5")
    assert done.code == 0, done.err
    assert "1 of 2: temperature=0.05, seed 0: goes on" in done.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "grid: is empty"),
        (["--grid", "temprature=1"], "did you mean 'temperature'?"),
        (["--grid", "temperature"], "--grid: 'temperature' is not of the form"),
        (["--grid", "temperature=1", "--grid", "temperature=2"], "--grid: temperature is given twice"),
        (["--grid", "temperature=1,1.0"], "temperature has the value 1.0 twice"),
        (["--grid", "seed=1,2"], "--seeds"),
        (["--grid", "temperature=1", "--seeds", "a"], "--seeds: 'a' is not a list of numbers"),
        (["--grid", "temperature=1", "--set", "temperature=2"], "in the grid and fixed to 2"),
        (["--grid", "max_steps=1,2"], "max_steps is in the grid and fixed to 2"),
        (["--grid", "temperature=1", "--teacher", "x"], "teachers"),
        (["--grid", "temperature=1", "--set", "compile=true", "--corpus", "none.txt"], "none.txt: no such file"),
    ],
)
def test_mistakes_are_told_in_one_line(arguments: list[str], message: str, sweep: Any) -> None:
    assert message in sweep(*arguments).error
