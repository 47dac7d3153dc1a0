"""The commands train and demo."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from patience import HANG

Nearer = Callable[..., Any]
COMMAND = [sys.executable, "-m", "nearer.cli.main"]


@pytest.fixture
def recipe(tmp_path: Path, tiny_model: Callable[[str], Path]) -> Path:
    pairs = ("the fox\ta dog\t1", "rain comes\tthe rain\t4", "far away\ta lazy dog\t0", "a fox\tthe fox\t5")
    dev = tmp_path / "dev.tsv"
    dev.write_text("\n".join(pairs) + "\n")
    path = tmp_path / "own.yaml"
    path.write_text(
        f"method: simcse\nmodel: {tiny_model('bert')}\npooling: mean\nhead: false\nbatch_size: 4\n"
        f"max_length: 12\nselect_on: {dev}\ntest_on: {dev}\nevaluate_every: 10\nepochs: 1000\n"
    )
    return path


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    words = "the quick brown fox jumps over a lazy dog and rain comes far away".split()  # noqa: SIM905
    path = tmp_path / "corpus.txt"
    path.write_text("".join(f"{a} {b}\n" for a in words for b in words if a != b))
    return path


def test_a_run_with_seeds_prints_mean_and_deviation(recipe: Path, corpus: Path, tmp_path: Path, nearer: Nearer) -> None:
    options = ("--corpus", corpus, "--out", tmp_path / "runs", "--max-steps", 4, "--seeds", "0,1")
    done = nearer("train", recipe, *options)
    assert done.code == 0, done.err
    assert "±" in done.out
    assert (tmp_path / "runs" / "seed-1" / "model" / "nearer.json").exists()
    assert (tmp_path / "runs" / "summary.json").exists()


def test_ctrl_c_saves_and_the_run_goes_on(recipe: Path, corpus: Path, tmp_path: Path, nearer: Nearer) -> None:
    folder = tmp_path / "run"
    arguments = ["train", str(recipe), "--corpus", str(corpus), "--out", str(folder), "--max-steps", "60"]
    process = subprocess.Popen(
        [*COMMAND, *arguments], stderr=subprocess.PIPE, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"}
    )
    assert process.stderr is not None
    while not list(folder.glob("checkpoints/step-*")):  # it runs, and has saved once
        assert process.poll() is None, process.stderr.read()
        threading.Event().wait(0.05)  # so as not to take the time from it
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=HANG)
    assert process.returncode == 130
    assert f"go on with: nearer train --resume {folder}" in errors
    assert "Traceback" not in errors
    done = nearer("train", "--resume", folder, "--no-report")
    assert done.code == 0, done.err
    assert f"model: {folder / 'model'}" in done.err
    again = nearer("train", "--resume", folder, "--no-report")  # a finished run is left as it is
    assert again.code == 0, again.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["train"], "a recipe and --corpus FILE are needed"),
        (["train", "simcse-bert-bas", "--corpus", "x"], "Did you mean 'simcse-bert-base'?"),
        (["train", "simcse-bert-base", "--corpus", "x", "--set", "temprature=1"], "did you mean 'temperature'?"),
        (["train", "simcse-bert-base", "--corpus", "x", "--set", "temperature"], "key=value"),
        (["train", "simcse-bert-base", "--corpus", "x"], "--data DIR"),
        (["train", "simcse-bert-base", "--corpus", "x", "--seeds", "a,b"], "--seeds"),
        (
            ["train", "simcse-wiki-mini", "--corpus", "none.txt", "--set", "select_on=everyday"],
            "none.txt: no such file",
        ),
        (["train", "x", "--resume", "y"], "--resume: goes on with the run's own"),
        (["train", "--resume", "nowhere"], "is not the folder of a run"),
    ],
)
def test_mistakes_are_told_in_one_line(arguments: list[str], message: str, nearer: Nearer) -> None:
    done = nearer(*arguments)
    assert done.code == 1
    assert message in done.err
    assert len(done.err.strip().splitlines()) == 1
