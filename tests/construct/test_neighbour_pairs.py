"""Pairs of running text."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from nearer.cli.main import app
from nearer.construct.neighbours import iter_neighbours, write_neighbours
from nearer.errors import InputError, SettingError
from nearer.text import read_pairs, read_sentences


@pytest.fixture
def text(tmp_path: Path) -> Path:
    path = tmp_path / "running.txt"
    path.write_text("one\ntwo\nthree\n\nfour\nfive\n\nsix\n")
    return path


def test_the_next_sentence_within_a_document(text: Path) -> None:
    assert list(iter_neighbours(read_sentences(text))) == [("one", "two"), ("two", "three"), ("four", "five")]


def test_one_of_the_next_three(tmp_path: Path) -> None:
    path = tmp_path / "running.txt"
    path.write_text("".join(f"sentence {n}\n" for n in range(50)))
    gaps = set()
    for seed in range(3):
        pairs = list(iter_neighbours(read_sentences(path), within=3, seed=seed))
        assert [int(first.split()[1]) for first, _ in pairs] == list(range(49))
        gaps |= {int(second.split()[1]) - int(first.split()[1]) for first, second in pairs}
        assert pairs == list(iter_neighbours(read_sentences(path), within=3, seed=seed))
    assert gaps == {1, 2, 3}


def test_the_command_writes_pairs_that_training_reads(text: Path, tmp_path: Path) -> None:
    out = tmp_path / "pairs.jsonl"
    result = CliRunner().invoke(app, ["construct", "neighbours", str(text), "--out", str(out)])
    assert result.exit_code == 0
    assert "3 pairs" in result.output
    assert next((pair.first, pair.second) for pair in read_pairs(out)) == ("one", "two")


def test_what_cannot_be_used(text: Path, tmp_path: Path) -> None:
    alone = tmp_path / "alone.txt"
    alone.write_text("one\n\ntwo\n")
    with pytest.raises(InputError, match="no two lines follow each other"):
        write_neighbours(read_sentences(alone), tmp_path / "out.jsonl")
    assert not (tmp_path / "out.jsonl").exists()
    with pytest.raises(InputError, match="is there already"):
        write_neighbours(read_sentences(text), alone)
    with pytest.raises(SettingError, match="within: 0"):
        list(iter_neighbours(read_sentences(text), within=0))
