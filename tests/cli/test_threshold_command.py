"""threshold: a cut from labelled pairs or from a text, and mistakes in one line."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from nearer.analysis import threshold_of_pairs
from nearer.encoder import Encoder

Run = Callable[..., Any]
WORDS = "the quick brown fox jumps over a lazy dog and rain comes".split()  # noqa: SIM905
LINES = [f"{first} {second}" for first in WORDS[:6] for second in WORDS[6:]]
PAIRS = [(LINES[n], f"{LINES[n]}." if n % 2 else LINES[(n * 7 + 3) % 36], n % 2) for n in range(24)]


@pytest.fixture
def pairs(tmp_path: Path) -> Path:
    path = tmp_path / "pairs.tsv"
    path.write_text("".join(f"{first}\t{second}\t{label}\n" for first, second, label in PAIRS), encoding="utf-8")
    return path


def test_by_labelled_pairs(nearer: Run, pooled: Path, encoder: Encoder, pairs: Path) -> None:
    outcome = nearer("threshold", pooled, pairs, "--device", "cpu")
    scores = [encoder.similarity(first, second) for first, second, _ in PAIRS]
    expected = threshold_of_pairs(scores, [bool(label) for *_, label in PAIRS])
    assert outcome.out.startswith("cut at ")
    assert float(outcome.out.split()[-1]) == pytest.approx(expected.cut.value, abs=1e-3)
    assert "best F1, on 24 pairs of which 12 are the same" in outcome.err
    found = json.loads(nearer("threshold", pooled, pairs, "--device", "cpu", "--json", "--precision", 0.6).out)
    assert found["wanted"] == 0.6
    assert found["precision"]["value"] >= 0.6


def test_graded_labels(nearer: Run, pooled: Path, pairs: Path) -> None:
    pairs.write_text(pairs.read_text().replace("\t1\n", "\t4.5\n"))
    told = nearer("threshold", pooled, pairs, "--device", "cpu").error
    assert "line 2 has the label 4.5, 0 or 1 is needed" in told
    assert told.endswith("(--same-from).")
    assert "12 are the same" in nearer("threshold", pooled, pairs, "--device", "cpu", "--same-from", 4).err


def test_by_a_text(nearer: Run, pooled: Path, tmp_path: Path) -> None:
    corpus = tmp_path / "corpus.txt"
    corpus.write_text("\n".join(LINES) + "\n")
    outcome = nearer("threshold", pooled, "--corpus", corpus, "--device", "cpu", "--false-positives", 0.05)
    assert outcome.out.startswith("cut at ")
    assert "random pairs reach it" in outcome.err
    found = json.loads(
        nearer("threshold", pooled, "--corpus", corpus, "--device", "cpu", "--false-positives", 0.05, "--json").out
    )
    assert found["chosen"]["false_positives"] <= 0.05
    assert found["sentences"] == 36


def test_mistakes(nearer: Run, pooled: Path, pairs: Path, tmp_path: Path) -> None:
    assert "either labelled PAIRS or --corpus" in nearer("threshold", pooled).error
    assert "either labelled PAIRS or --corpus" in nearer("threshold", pooled, pairs, "--corpus", pairs).error
    assert "are about labelled pairs" in nearer("threshold", pooled, "--corpus", pairs, "--precision", 0.9).error
    unlabelled = tmp_path / "unlabelled.tsv"
    unlabelled.write_text("a man\train\n" * 12)
    assert "line 1 has no label" in nearer("threshold", pooled, unlabelled).error
    assert "no such file" in nearer("threshold", pooled, tmp_path / "missing.tsv").error
