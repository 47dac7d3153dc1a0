"""The examples as a reader runs them: a process each, offline, on a small text, with the bundled model."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

from nearer.encoder import Encoder
from nearer.text import read_pairs
from patience import HANG

EXAMPLES = Path(__file__).parents[2] / "examples"
NAMES = sorted(path.name for path in EXAMPLES.glob("*.py"))
BUNDLED_PAIRS = Path(importlib.util.find_spec("nearer").origin).parent / "bundled" / "everyday-pairs.tsv"
# which of them is run where
RUN_HERE = {
    "first_ranking.py",
    "train_on_your_text.py",
    "distil_a_teacher.py",
    "compare_two_models.py",
    "build_debiased_data.py",
    "search_own_text.py",
    "own_method_in_the_league.py",
}
RUN_ELSEWHERE = {"sentence_transformers_listwise.py": "tests/integrations/test_listwise_training.py"}


def run(folder: Path, name: str, *arguments: object) -> str:
    """What an example prints; its folder is where it writes."""
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / name), *map(str, arguments)],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=HANG,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture
def text(tmp_path: Path) -> Path:
    """64 different sentences: one batch of SimCSE's recipe."""
    path = tmp_path / "mine.txt"
    sentences = dict.fromkeys(sentence for pair in read_pairs(BUNDLED_PAIRS) for sentence in (pair.first, pair.second))
    path.write_text("".join(f"{sentence}\n" for sentence in list(sentences)[:64]), encoding="utf-8")
    return path


@pytest.fixture
def small_model(tiny_model, tmp_path: Path) -> Path:
    Encoder.load(tiny_model("bert"), pooling="mean", device="cpu").save(tmp_path / "small")
    return tmp_path / "small"


@pytest.mark.parametrize("name", NAMES)
def test_short_and_run_by_a_test(name: str) -> None:
    assert len((EXAMPLES / name).read_text(encoding="utf-8").splitlines()) < 60
    assert name in RUN_HERE or name in (EXAMPLES.parent / RUN_ELSEWHERE[name]).read_text(encoding="utf-8")


@pytest.mark.parametrize("name", NAMES)
def test_says_how_it_is_called(name: str) -> None:
    assert f"\n    python examples/{name}" in (EXAMPLES / name).read_text(encoding="utf-8")


def test_first_ranking(tmp_path: Path) -> None:
    lines = run(tmp_path, "first_ranking.py").splitlines()
    assert len(lines) == 5
    assert lines[0].endswith("Wrap the bread in a cloth so that it does not dry out.")
    assert lines == sorted(lines, reverse=True)


def test_train_on_your_text(text: Path, tmp_path: Path) -> None:
    shown = run(tmp_path, "train_on_your_text.py", text, "--steps", 1, "--out", "run").splitlines()
    assert shown[0].startswith("best step ")
    assert shown[1].startswith("nearest to 'The soup tasted flat")
    assert len(shown) == 5
    assert Encoder.load(tmp_path / "run" / "model", device="cpu").settings.pooling == "mean"


@pytest.mark.slow
def test_distil_a_teacher(text: Path, small_model: Path, tmp_path: Path) -> None:
    options = ("--teacher", small_model, "--batch-size", 32, "--epochs", 1, "--out", "run")
    shown = run(tmp_path, "distil_a_teacher.py", text, *options).splitlines()
    assert shown[0].startswith("everyday pairs, Spearman × 100: student ")
    assert Encoder.load(tmp_path / "run" / "model", device="cpu").dimension == 256


@pytest.mark.slow
def test_compare_two_models(small_model: Path, tmp_path: Path) -> None:
    shown = run(tmp_path, "compare_two_models.py", "wiki-mini", small_model).splitlines()
    assert shown[0] == "wiki-mini {'everyday': 48.3}"
    assert shown[2].startswith("everyday: -")
    assert shown[2].endswith("more than chance")


@pytest.mark.slow
def test_build_debiased_data(text: Path, tmp_path: Path) -> None:
    pytest.importorskip("rapidfuzz")
    shown = run(tmp_path, "build_debiased_data.py", text, "--limit", 8, "--out", "debiased").splitlines()
    assert [line.split()[0] for line in shown[:5]] == ["anchor", *["positive"] * 2, *["negative"] * 2]
    assert shown[5] == "debiased/data.jsonl: 8 records"


def test_search_own_text(text: Path, tmp_path: Path) -> None:
    pytest.importorskip("faiss")
    call = (text, "The broth was bland until lemon was squeezed into it.", "--index", "mine.index", "-k", 3)
    first = run(tmp_path, "search_own_text.py", *call)
    assert first.splitlines()[0].endswith("The soup tasted flat until she squeezed half a lemon into the pot.")
    assert len(first.splitlines()) == 3


@pytest.mark.slow
def test_own_method_in_the_league(text: Path, tmp_path: Path) -> None:
    shown = run(tmp_path, "own_method_in_the_league.py", text, "--steps", 1, "--out", "league").splitlines()
    assert sorted(line.partition(":")[0] for line in shown[-2:]) == ["shorter", "simcse"]
    assert len(list((tmp_path / "league").rglob("config.yaml"))) == 6
    assert (tmp_path / "league" / "league.html").exists()
