"""`nearer bench train` and `nearer bench encode`, from the command line to the report."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

import nearer
from benchmarks import encode, steps
from benchmarks.report import FLOOR, Report
from benchmarks.steps import DOES_NOT_FIT, OURS, PAPERS
from nearer.extras import install_command
from patience import HANG

PEER = "sentence-transformers"


@pytest.fixture
def corpus(tmp_path: Path, lines: list[str]) -> Path:
    path = tmp_path / "corpus.txt"
    path.write_text("".join(f"{line}\n" for line in lines))
    return path


def read(path: Path) -> Report:
    return Report.from_json(path.read_text(encoding="utf-8"))


class TestTrain:
    def test_pairs_of_unequal_sides(self, bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("benchmarks.train.PAIRS", (4, 24))
        path = tmp_path / "report.json"
        done = bench("train", "--shape", "tiny", "--batch", 4, "--steps", 1, "--pairs", "--json", path)
        assert done.code == 0, done.err
        rows = [row for row in read(path).rows if row.subject == steps.PAIRS_SUBJECT]
        assert [row.what.partition(",")[0] for row in rows] == [PEER, OURS]
        assert {(row.batch, row.max_length) for row in rows} == {(4, 24)}
        assert rows[1].times_faster == {rows[0].what: pytest.approx(rows[0].seconds / rows[1].seconds)}

    def test_scored_lists_beside_a_contrast_of_as_many_tokens(
        self, bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("benchmarks.train.LISTS", {"cpu": (2, 24)})
        path = tmp_path / "report.json"
        options = ("--batch", 4, "--steps", 1, "--lists", "--no-peers", "--json", path)
        done = bench("train", "--shape", "tiny", *options)
        assert done.code == 0, done.err
        contrast, scored = [row for row in read(path).rows if row.subject == steps.LISTS_SUBJECT]
        assert (contrast.what, scored.what) == (steps.CONTRAST, steps.SCORED)
        tokens = [int(re.search(r"([\d,]+) tokens", row.note)[1].replace(",", "")) for row in (contrast, scored)]
        assert 0.5 < tokens[1] / tokens[0] <= 1  # as many passages, fewer queries
        ratio = scored.seconds / tokens[1] / (contrast.seconds / tokens[0])
        assert f"{ratio:.2f} × a contrastive step of as many tokens" in scored.note

    def test_titles_are_short_and_texts_fill_the_length(self) -> None:
        sentences = [f"sentence {place} has these and some ten or so more words" for place in range(5)]
        titles, texts = steps.titles_and_texts(sentences, 64)
        assert all(len(title.split()) == 8 for title in titles)
        assert all(len(text.split()) > 40 for text in texts)
        assert not any(title in text for title, text in zip(titles, texts, strict=True))

    @pytest.mark.slow
    def test_all_of_it(self, bench, tmp_path: Path) -> None:
        path = tmp_path / "report.json"
        done = bench(
            *("train", "--shape", "tiny", "--batch", "4,64", "--max-length", "16", "--steps", 2),
            *("--sizes", "130", "--profile", "--json", path),
        )
        assert done.code == 0, done.err
        report = read(path)
        by_name = {row.what.partition(",")[0]: row for row in report.rows if row.batch == 4}
        assert list(by_name) == [PAPERS, PEER, OURS, FLOOR]
        assert all(row.seconds and row.seconds > 0 for row in report.rows)
        ours = by_name[OURS]
        assert ours.max_length == 16
        assert len(ours.rounds) == 2
        assert ours.times_faster[PAPERS] == pytest.approx(by_name[PAPERS].seconds / ours.seconds)
        assert len(ours.times_faster) == 2
        assert ours.of_floor == pytest.approx(ours.seconds / by_name[FLOOR].seconds)
        papers, all_of_it, cached = [row for row in report.rows if row.subject == "one epoch"]
        assert [row.what for row in (papers, all_of_it, cached)] == [PAPERS, OURS, f"{OURS}, tokenised before"]
        step = next(row for row in report.rows if (row.what, row.batch) == (PAPERS, 64))
        assert papers.seconds == pytest.approx(3 * step.seconds)  # 130 sentences are three batches
        assert all_of_it.times_faster == {PAPERS: pytest.approx(papers.seconds / all_of_it.seconds)}
        assert cached.seconds < all_of_it.seconds
        assert "evaluations on everyday" in all_of_it.note
        assert [profile["what"] for profile in report.profiles] == [OURS]
        assert report.settings["batches"] == [4, 64]
        assert torch.__version__.startswith(report.versions["pytorch"])  # which may add what it was built for
        assert report.command.startswith("nearer bench train --shape tiny")
        for shown in ("papers' loop", "arithmetic floor", "one epoch", "torch threads", "BERT of shape tiny"):
            assert shown in done.out

    def test_a_model_and_a_corpus_of_ones_own(self, bench, corpus: Path, tiny_model, tmp_path: Path) -> None:
        path = tmp_path / "report.json"
        model = tiny_model("mobilebert")
        done = bench(
            *("train", "--model", model, "--corpus", corpus, "--batch", 4, "--steps", 1, "--no-peers", "--json", path)
        )
        assert done.code == 0, done.err
        report = read(path)
        assert [row.what for row in report.rows] == [OURS]
        assert f"model: {model}" in report.notes
        assert any(str(corpus) in note for note in report.notes)
        assert any("no arithmetic floor" in note for note in report.notes)

    def test_a_batch_that_does_not_fit(self, bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        real = steps.PapersLoop

        def small_memory(*arguments, batch_size: int, **options):
            if batch_size > 4:
                raise torch.OutOfMemoryError("CUDA out of memory.")
            return real(*arguments, batch_size=batch_size, **options)

        monkeypatch.setattr(steps, "PapersLoop", small_memory)
        monkeypatch.setattr(steps, "peer_installed", lambda: False)
        path = tmp_path / "report.json"
        done = bench("train", "--shape", "tiny", "--batch", "8,4", "--steps", 1, "--json", path)
        assert done.code == 0, done.err
        rows = {(row.what, row.batch): row for row in read(path).rows}
        assert (rows[PAPERS, 8].seconds, rows[PAPERS, 8].note) == (None, DOES_NOT_FIT)
        assert rows[PAPERS, 4].seconds
        assert rows[OURS, 8].seconds
        assert rows[OURS, 8].times_faster == {}

    def test_without_sentence_transformers(self, bench, monkeypatch: pytest.MonkeyPatch) -> None:
        real = importlib.util.find_spec
        monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if "sentence_tr" in name else real(name))
        done = bench("train", "--shape", "tiny", "--batch", 4, "--steps", 1)
        assert done.code == 0, done.err
        assert f"not installed ({install_command('sentence-transformers')})" in done.out


class TestEncode:
    def test_all_of_it(self, bench, corpus: Path, tmp_path: Path) -> None:
        path = tmp_path / "report.json"
        done = bench(
            *("encode", "--shape", "tiny", "--corpus", corpus, "--sizes", "6,12", "--precision", "float32,bf16"),
            *("--peer-batch", 4, "--json", path),
        )
        assert done.code == 0, done.err
        rows = read(path).rows
        names = [OURS, f"{PEER}, batch 4"]
        expected = [(name, size) for size in (6, 12) for name in names] + [(f"{OURS}, file to file", 12)]
        for precision in ("float32", "bf16"):
            own = [row for row in rows if row.subject == f"encoding in {precision}"]
            assert [(row.what, row.sentences) for row in own] == expected
            assert own[0].times_faster[names[1]] == pytest.approx(own[1].seconds / own[0].seconds)
        exact = next(row for row in rows if row.what == names[1])
        assert float(exact.note.split()[-1]) < 1e-5
        assert rows[4].memory is not None
        assert "mixed: of four texts" in done.out

    def test_the_largest_difference(self) -> None:
        first = np.zeros((5, 2), dtype=np.float32)
        second = first.copy()
        second[3, 1] = -0.25
        assert encode.largest_difference(first, second, rows_at_once=2) == 0.25

    def test_no_peers(self, bench, corpus: Path) -> None:
        done = bench("encode", "--shape", "tiny", "--corpus", corpus, "--sizes", 20, "--no-peers")
        assert done.code == 0, done.err
        assert PEER not in done.out.split("model:")[0].split("encoding in")[1]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["train", "--batch", "many"], "--batch: 'many' is not a number such as 64, 10k or 1m."),
        (["train", "--batch", "1"], "--batch: 1 leaves no negatives; 2 at least."),
        (["train", "--max-length", "2"], "--max-length: 2 leaves no room for a sentence (3 at least)."),
        (["train", "--shape", "huge"], "shape: 'huge' is not one of base, small, tiny."),
        (["train", "--shape", "tiny", "--model", "x"], "--shape: makes a model of random weights"),
        (["train", "--model", "./none"], "./none: no such folder."),
        (["train", "--corpus", "none.txt", "--shape", "tiny"], "none.txt: no such file."),
        (["train", "--sizes", "1g"], "--sizes: '1g' is not a number"),
        (["train", "--epoch", "--data", "none"], "none: no such data folder"),
        (["train", "--json", "none/report.json"], "none/report.json: cannot be written (No such file or directory)."),
        (["train", "--device", "tpu"], "--device: 'tpu' is not cpu, cuda or cuda:N."),
        (["encode", "--precision", "int3"], "--precision: 'int3' is not one of float32, bf16."),
        (["encode", "--model", "./none"], "./none: no such folder."),
        (["encode", "--json", "."], ".: is a folder, the report is a file."),
    ],
)
def test_mistakes_are_told_in_one_line(
    arguments: list[str], message: str, bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    done = bench(*arguments)
    assert (done.code, done.out) == (1, "")
    assert done.err.startswith(f"error: {message}")
    assert len(done.err.splitlines()) == 1
    assert list(tmp_path.glob("*")) in ([], [tmp_path / "nearer-cache"])


@pytest.mark.parametrize("setting", ["--batch", "--sizes"])
def test_more_than_the_corpus_has(setting: str, bench, corpus: Path) -> None:
    done = bench("train", "--shape", "tiny", "--corpus", corpus, "--steps", 1, setting, "10k")
    assert (done.code, done.out) == (1, "")
    assert f"{setting}: 10,000 is too large, there are 144 sentences" in done.err


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_no_gpu(bench) -> None:
    done = bench("train", "--device", "cuda")
    assert (done.code, done.out) == (1, "")
    assert done.err.startswith("error: --device: cuda cannot be used here, torch ")


class TestWithoutACheckout:
    def test_the_mend_is_told_in_one_line(self, bench, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("nearer.cli.bench.checkout", lambda: None)
        done = bench("train", "--shape", "tiny")
        assert done.code == 1
        assert done.err.splitlines() == [
            "error: nearer bench needs a checkout, the wheel has no benchmarks: "
            "git clone https://github.com/nearer-embeddings/nearer; pip install -e ./nearer"
        ]

    def test_help_is_there_all_the_same(self, bench, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("nearer.cli.bench.checkout", lambda: None)
        done = bench("train", "--help")
        assert done.code == 0
        assert "--max-length" in done.out


def test_it_is_found_from_any_folder(tmp_path: Path) -> None:
    """Installed as editable, the package alone is on Python's path."""
    environment = {**os.environ, "PYTHONPATH": str(Path(nearer.__file__).parents[1])}
    command = [sys.executable, "-m", "nearer.cli.main", "bench", "encode", "--json", str(tmp_path)]
    done = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=HANG, check=False
    )
    assert done.stderr == f"error: {tmp_path}: is a folder, the report is a file.\n"
