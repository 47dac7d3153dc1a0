"""`nearer analyse` on tiny models: tables on standard output, files where asked for, mistakes in one line."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from nearer.encoder import Encoder
from nearer.evaluation import evaluate
from nearer.teachers import RankEncoder

Command = Callable[..., tuple[int, str, str]]


@pytest.fixture
def model(tiny_model: Callable[[str], Path], tmp_path: Path) -> Path:
    Encoder.load(tiny_model("bert"), pooling="mean", device="cpu").save(tmp_path / "mean")
    return tmp_path / "mean"


@pytest.fixture
def pairs(tmp_path: Path) -> Path:
    words = ["man", "lunch", "rain", "fox", "dog", "evening", "meal"]
    rows = [
        (f"a {one} and rain", f"the {two}", (3 * a + 2 * b) % 6)
        for a, one in enumerate(words)
        for b, two in enumerate(words)
    ]
    path = tmp_path / "graded.tsv"
    path.write_text("".join(f"{first}\t{second}\t{score}\n" for first, second, score in rows))
    return path


def test_tables_alone(command: Command, model: Path, pairs: Path) -> None:
    code, out, _ = command(model, "--tasks", pairs, "--device", "cpu", "--examples", 1)
    assert code == 0
    assert f"{evaluate(Encoder.load(model, device='cpu'), str(pairs)).average:.2f}" in out
    assert "graded" in out
    assert "query: " in out


def test_files_for_several_models_with_a_corpus(command: Command, model: Path, pairs: Path, tmp_path: Path) -> None:
    corpus = tmp_path / "corpus.txt"
    words = ("rain", "lunch", "dog", "meal", "man", "evening", "far", "away")
    corpus.write_text("".join(f"the fox has {word}\n" for word in words))
    ranked = tmp_path / "ranked"
    encoder = Encoder.load(model, device="cpu")
    RankEncoder.build(encoder, corpus.read_text().splitlines()).save(ranked)
    out = tmp_path / "new" / "out"
    options = ("--tasks", pairs, "--corpus", corpus, "--neighbours", 3, "--out", out, "--device", "cpu", "--path")
    code, _, err = command(model, ranked, *options)
    assert code == 0, err
    found = json.loads((out / "analysis.json").read_text())
    assert [analysed["model"] for analysed in found["models"]] == [str(model), str(ranked)]
    cosine, ranks = (analysed["protocol"]["similarity"] for analysed in found["models"])
    assert cosine == "cosine"
    assert "ranks of 8 sentences" in ranks
    assert found["models"][0]["tasks"][0]["rank_space"]["corpus"] == 8
    names = {path.name for path in (out / "figures").iterdir()}
    assert {"graded-alignment-uniformity.svg", "graded-gain.png", "graded-spectrum.svg"} <= names
    assert len(names) == 18
    code, _, err = command(model, *options)
    assert (code, err.splitlines()[-1]) == (
        1,
        f"error: {out}: an analysis is there already; choose another folder, or --force.",
    )
    assert command(model, *options, "--force")[0] == 0


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (("--tasks", "stsb"), "'stsb' needs the folder of the STS sets; name it by data (--data DIR)"),
        (("--tasks", "ranking:everyday"), "has no scored pairs; analysis is of tasks such as stsb-dev or a file"),
        (("--tasks", "everyday", "--threshold", 6), "no pair is scored above 6, the highest gold score is 5"),
        (("--tasks", "everyday", "--corpus", "none.txt"), "none.txt: no such file"),
    ],
)
def test_mistakes_are_one_line(command: Command, model: Path, options: tuple[object, ...], told: str) -> None:
    code, out, err = command(model, *options, "--device", "cpu")
    assert code == 1
    assert out == ""
    assert told in err.splitlines()[-1]
    assert "Traceback" not in err


def test_an_output_that_is_a_file(command: Command, model: Path, pairs: Path) -> None:
    code, _, err = command(model, "--tasks", pairs, "--out", pairs)
    assert (code, err) == (1, f"error: {pairs}: is a file, a folder is needed.\n")
