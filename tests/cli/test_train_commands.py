"""The commands train, recipes and demo."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from patience import HANG

COMMAND = [sys.executable, "-m", "nearer.cli.main"]


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*COMMAND, *arguments], capture_output=True, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"}
    )


@pytest.fixture
def recipe(tmp_path: Path, tiny_model: Callable[[str], Path]) -> Path:
    path = tmp_path / "own.yaml"
    path.write_text(
        f"method: simcse\nmodel: {tiny_model('bert')}\npooling: mean\nhead: false\nbatch_size: 4\n"
        "max_length: 12\nselect_on: everyday\ntest_on: everyday\nevaluate_every: 4\nepochs: 1000\n"
    )
    return path


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    words = "the quick brown fox jumps over a lazy dog and rain comes far away".split()  # noqa: SIM905
    path = tmp_path / "corpus.txt"
    path.write_text("".join(f"{a} {b}\n" for a in words for b in words if a != b))
    return path


def test_recipes_are_listed() -> None:
    done = run("recipes")
    assert done.returncode == 0
    assert "simcse-bert-base\n    Unsupervised SimCSE" in done.stdout


def test_a_run_with_seeds_prints_mean_and_deviation(recipe: Path, corpus: Path, tmp_path: Path) -> None:
    done = run(
        "train",
        str(recipe),
        "--corpus",
        str(corpus),
        "--out",
        str(tmp_path / "runs"),
        "--max-steps",
        "4",
        "--seeds",
        "0,1",
    )
    assert done.returncode == 0, done.stderr
    assert "±" in done.stdout
    assert (tmp_path / "runs" / "seed-1" / "model" / "nearer.json").exists()
    assert (tmp_path / "runs" / "summary.json").exists()


def test_ctrl_c_saves_and_the_run_goes_on(recipe: Path, corpus: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    arguments = ["train", str(recipe), "--corpus", str(corpus), "--out", str(folder), "--max-steps", "60"]
    process = subprocess.Popen(
        [*COMMAND, *arguments], stderr=subprocess.PIPE, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"}
    )
    assert process.stderr is not None
    while not list(folder.glob("checkpoints/step-*")):  # it runs, and has saved once
        assert process.poll() is None, process.stderr.read()
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=HANG)
    assert process.returncode == 130
    assert f"go on with: nearer train --resume {folder}" in errors
    assert "Traceback" not in errors
    done = run("train", "--resume", str(folder))
    assert done.returncode == 0, done.stderr
    assert f"model: {folder / 'model'}" in done.stderr
    again = run("train", "--resume", str(folder))  # a finished run is left as it is
    assert again.returncode == 0, again.stderr


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
def test_mistakes_are_told_in_one_line(arguments: list[str], message: str) -> None:
    done = run(*arguments)
    assert done.returncode == 1
    assert message in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
