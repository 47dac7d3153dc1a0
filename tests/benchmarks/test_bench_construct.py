"""`nearer bench construct`: stages that add up, for each size."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.construct import ALL, CORPUS_VECTORS, ENCODING, READING, WITHOUT_ENCODING
from benchmarks.report import Report


def test_stages_of_each_size(bench, lines: list[str], tmp_path: Path) -> None:
    corpus, path = tmp_path / "corpus.txt", tmp_path / "report.json"
    corpus.write_text("\n".join(lines) + "\n")
    options = ("--sizes", "60,120", "--anchors", 40, "--corpus", corpus, "--device", "cpu", "--json", path)
    done = bench("construct", *options)
    assert done.code == 0, done.err
    report = Report.from_json(path.read_text(encoding="utf-8"))
    for size, new in ((60, 0), (120, 0)):
        seconds = {row.what: row.seconds for row in report.rows if row.subject == f"a corpus of {size} sentences"}
        counts = {row.what: row.sentences for row in report.rows if row.subject == f"a corpus of {size} sentences"}
        assert counts.pop(CORPUS_VECTORS) == new  # the warm-up had them
        assert counts.pop(READING) == size
        assert set(counts.values()) == {40}
        every = seconds.pop(ALL)
        assert every - seconds[ENCODING] == pytest.approx(seconds.pop(WITHOUT_ENCODING))
        del seconds[CORPUS_VECTORS], seconds[READING]
        assert sum(seconds.values()) == pytest.approx(every)
        assert {"pools", "edit distances", "sampling", "candidates", "records"} < set(seconds)
    assert "µs a sentence" in done.out


def test_more_than_the_corpus_has(bench, lines: list[str], tmp_path: Path) -> None:
    corpus = tmp_path / "corpus.txt"
    corpus.write_text("\n".join(lines[:9]) + "\n")
    done = bench("construct", "--sizes", "10", "--corpus", corpus, "--device", "cpu")
    assert done.code == 1
    assert "--sizes: 10 is too large, there are 9 sentences" in done.err
