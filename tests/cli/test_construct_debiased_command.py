"""`nearer construct debiased` from text to data set: what it makes, says and refuses."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from nearer.construct.debiased_sampler import DebiasedSampler
from nearer.encoder import Encoder

Run = Callable[..., Any]
WORDS = "the quick brown fox jumps over a lazy dog and rain comes until someone has lunch far away".split()  # noqa: SIM905
LINES = [" ".join(WORDS[start : start + length]) for length in range(3, 8) for start in range(12)]
RANGE = ("--range", "0.8,0.97")


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    path = tmp_path / "corpus.txt"
    path.write_text("\n".join([*LINES, LINES[0], ""]), encoding="utf-8")
    return path


@pytest.fixture
def construct(nearer: Run, pooled: Path, corpus: Path, tmp_path: Path) -> Run:
    def run(*options: object, out: str = "out", model: Path = pooled) -> Any:
        given = ("--corpus", corpus, "--model", model, "--out", tmp_path / out, "--device", "cpu")
        return nearer("construct", "debiased", *given, *options)

    return run


def test_from_text_to_data_set(construct: Run, tmp_path: Path) -> None:
    nli = tmp_path / "nli.tsv"
    nli.write_text("the fox jumps\tthe fox\train comes\na lazy dog\ta dog\tlunch\n")
    outcome = construct(*RANGE, "--nli", nli, "--seed", 3, "--edit-level", "words")
    assert outcome.code == 0, outcome.err
    records = [json.loads(line) for line in (tmp_path / "out/data.jsonl").read_text(encoding="utf-8").splitlines()]
    assert [record["anchor"] for record in records] == LINES
    for record in records:
        assert (len(record["positives"]), len(record["negatives"])) == (2, 2)
    rows = [[cell.strip() for cell in line.split("│")[1:-1]] for line in outcome.out.splitlines() if "│" in line]
    assert [row[0] for row in rows] == ["contrastive", "debiased", "supervised (NLI)"]
    mean = sum(sum(record["negative_cosines"]) for record in records) / (2 * len(records))
    assert rows[1][4] == f"{mean:.2f}"
    assert (
        f"{tmp_path / 'out/data.jsonl'}: 60 records of 60 different sentences, 1 repeated ones left out" in outcome.err
    )
    header = json.loads((tmp_path / "out/about.json").read_text(encoding="utf-8"))
    assert header["about"]["seed"] == 3
    assert header["about"]["generator"]["generator"] == "noise"
    assert header["result"]["samples"]["debiased"]["negative_cosines"] == pytest.approx(mean, abs=1e-4)
    assert (tmp_path / "out/cosines.svg").exists()


def test_it_is_read_as_debiased_samples(construct: Run, nearer: Run, tmp_path: Path) -> None:
    for format in ("jsonl", "parquet"):
        if format == "parquet":
            pytest.importorskip("pyarrow")
        assert construct(*RANGE, "--format", format, out=format).code == 0
        outcome = nearer("data", "read", tmp_path / format / f"data.{format}", "--as", "debiased")
        assert outcome.code == 0, outcome.err
        assert "60 read, 60 kept, 0 dropped" in outcome.err


def test_interrupted_it_goes_on_and_ends_the_same(
    construct: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from nearer.construct import debiased

    monkeypatch.setattr(debiased, "BLOCK_ON_CPU", 16)
    whole = construct(*RANGE, out="whole")
    records = DebiasedSampler.records

    def interrupted(self: DebiasedSampler, numbers: Any) -> Any:
        if numbers[0] == 32:
            raise KeyboardInterrupt
        return records(self, numbers)

    with monkeypatch.context() as patch:
        patch.setattr(DebiasedSampler, "records", interrupted)
        outcome = construct(*RANGE)
        assert outcome.code == 130
        assert outcome.err.splitlines()[-1] == "stopped; 32 of 60 are kept; the same command goes on there"
    outcome = construct(*RANGE)
    assert outcome.code == 0
    assert outcome.out == whole.out
    for name in ("data.jsonl", "about.json", "cosines.svg"):
        assert (tmp_path / "out" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()


def test_a_finished_one_is_not_built_again(construct: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    first = construct(*RANGE, "--limit", 20)
    monkeypatch.setattr(DebiasedSampler, "records", lambda *_: pytest.fail("built again"))
    second = construct(*RANGE, "--limit", 20)
    assert (second.code, second.out) == (0, first.out)
    assert "20 records of 60 different sentences" in second.err


def test_without_matplotlib_there_is_no_figure_but_everything_else(
    construct: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "matplotlib", None)
    outcome = construct(*RANGE)
    assert outcome.code == 0
    assert "no figure: drawing figures needs the package 'matplotlib'" in outcome.err


class TestRefusals:
    def test_no_cosine_in_the_range(self, construct: Run) -> None:
        error = construct("--range", "-0.9,-0.8").error
        assert error.startswith("range -0.9,-0.8: all negative pools are empty; 60 anchors looked at 60 sentences each")

    @pytest.mark.parametrize(
        ("options", "named"),
        [
            (("--range", "0.8,0.3"), "range: 0.8,0.3 is not two cosines, the lower one first."),
            (("--range", "0.8"), "--range: '0.8' is not two numbers such as 0.25,0.75."),
            (("--candidates", 1), "candidates: 1 are fewer than the 2 positives wanted."),
            (("--pool-size", 1), "pool_size: 1 is smaller than the 2 negatives wanted."),
            (("--nli", "nowhere.tsv"), "nowhere.tsv: no such file."),
        ],
    )
    def test_before_a_model_is_loaded(
        self, construct: Run, options: tuple[object, ...], named: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(Encoder, "load", lambda *_, **__: pytest.fail("loaded"))
        assert construct(*options).error == named

    def test_a_corpus_that_is_not_there(self, nearer: Run, pooled: Path, tmp_path: Path) -> None:
        missing, out = tmp_path / "none.txt", tmp_path / "out"
        given = ("--corpus", missing, "--model", pooled, "--out", out)
        assert nearer("construct", "debiased", *given).error == f"{missing}: no such file."
        assert not out.exists()

    def test_a_place_that_cannot_be_written_before_anything_is_encoded(
        self, construct: Run, corpus: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(Encoder, "forward", lambda *_: pytest.fail("encoded"))
        assert construct(out="corpus.txt/below").error.startswith(f"{corpus}/below: cannot be written")

    def test_other_settings_in_a_begun_folder(self, construct: Run, tmp_path: Path) -> None:
        construct(*RANGE)
        error = construct(*RANGE, "--seed", 1).error
        assert error.startswith(f"{tmp_path / 'out'}: was begun with seed 0, 1 asked now")

    def test_an_unknown_generator(self, construct: Run) -> None:
        assert "'dice'" in construct("--generator", "dice").error

    def test_too_few_sentences(self, construct: Run, corpus: Path) -> None:
        corpus.write_text("the fox\nrain comes\n")
        assert construct().error.startswith("the corpus has 2 different sentences; 2 negatives for each need")
