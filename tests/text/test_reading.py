"""What all formats share: options, duplicates, encodings, formats by name, reports, fingerprints."""

from __future__ import annotations

import bz2
import csv
import gzip
import io
import json
import lzma
from pathlib import Path

import pytest
import zstandard

from nearer.errors import InputError, SettingError
from nearer.text import (
    Fault,
    Pair,
    RankingList,
    ReadOptions,
    ReadReport,
    Triplet,
    read_pairs,
    read_ranking_lists,
    read_sentences,
    read_triplets,
)

READERS = {
    "sentences": read_sentences,
    "pairs": read_pairs,
    "scored pairs": read_pairs,
    "triplets": read_triplets,
    "lists": read_ranking_lists,
}
RECORDS = {
    "sentences": ["one", "two, with a comma", "drei groß"],
    "pairs": [Pair("a, b", "c"), Pair("d", "é")],
    "scored pairs": [Pair("a", "b", 0.5), Pair("c", "d", -3.0)],
    "triplets": [Triplet("a", "b", "c"), Triplet("d", "e", "f, g")],
    "lists": [RankingList(("a", "b", "c")), RankingList(("d", "e", "f"))],
}
NAMES = {
    "sentences": ["text"],
    "pairs": ["sentence1", "sentence2"],
    "scored pairs": ["sentence1", "sentence2", "score"],
    "triplets": ["anchor", "positive", "negative"],
    "lists": ["sentences"],
}
COMPRESS = {
    "gz": gzip.compress,
    "xz": lzma.compress,
    "zst": zstandard.compress,
    "bz2": bz2.compress,
}


def cells(shape: str) -> list[list]:
    """The records as rows of cells, without what is None."""
    if shape == "sentences":
        return [[record] for record in RECORDS[shape]]
    if shape == "lists":
        return [list(record.sentences) for record in RECORDS[shape]]
    return [[cell for cell in record if cell is not None] for record in RECORDS[shape]]


def written(shape: str, format: str) -> bytes:
    rows = cells(shape)
    if format in ("txt", "tsv"):
        return "".join("\t".join(map(str, row)) + "\n" for row in rows).encode()
    if format == "csv":
        text = io.StringIO()
        csv.writer(text).writerows(rows)
        return text.getvalue().encode()
    columns = [[row] for row in rows] if shape == "lists" else rows
    if format == "jsonl":
        return "".join(json.dumps(dict(zip(NAMES[shape], row, strict=True))) + "\n" for row in columns).encode()
    arrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    data = io.BytesIO()
    parquet.write_table(arrow.table(dict(zip(NAMES[shape], map(list, zip(*columns, strict=True)), strict=True))), data)
    return data.getvalue()


class TestEveryFormat:
    @pytest.mark.parametrize("compression", [None, *COMPRESS])
    @pytest.mark.parametrize("format", ["txt", "csv", "tsv", "jsonl", "parquet"])
    @pytest.mark.parametrize("shape", READERS)
    def test_every_shape_in_every_compression(
        self, shape: str, format: str, compression: str | None, tmp_path: Path
    ) -> None:
        data = written(shape, format)
        path = tmp_path / f"a.{format}"
        if compression:
            path = tmp_path / f"a.{format}.{compression}"
            data = COMPRESS[compression](data)
        path.write_bytes(data)
        reading = READERS[shape](path)
        assert list(reading) == RECORDS[shape]
        report = reading.report
        assert (report.read, report.kept, report.tallies) == (len(RECORDS[shape]), len(RECORDS[shape]), {})

    @pytest.mark.parametrize("name", ["a.CSV", "a.csv.GZ", "my.corpus.csv", "a.csv.gz.xz"])
    def test_the_format_goes_by_the_name(self, name: str, tmp_path: Path) -> None:
        (tmp_path / name).write_bytes(b'"one, two"\n')
        assert list(read_sentences(tmp_path / name)) == ["one, two"]

    @pytest.mark.parametrize("name", ["a", "a.text", "a.v1.2", ".csv"])
    def test_other_names_are_plain_text(self, name: str, tmp_path: Path) -> None:
        (tmp_path / name).write_bytes(b'"one, two"\n')
        assert list(read_sentences(tmp_path / name)) == ['"one, two"']

    def test_the_format_can_be_said(self, tmp_path: Path) -> None:
        (tmp_path / "a.txt").write_bytes(b'"one, two"\n')
        assert list(read_sentences(tmp_path / "a.txt", format="csv")) == ["one, two"]


class TestOptions:
    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"encoding": "klingon"}, "encoding: 'klingon' is not known"),
            ({"encoding": ""}, "encoding: '' is not known"),
            ({"encoding": "a\x00"}, "is not known"),
            ({"encoding": "base64"}, "encoding: 'base64' is not known"),
            ({"encoding": "rot13"}, "encoding: 'rot13' is not known"),
            ({"encoding": "undefined"}, "encoding: 'undefined' is not known"),
            ({"encoding": "utf-16"}, "convert the file: iconv -f utf-16 -t utf-8"),
            ({"encoding": "utf-32-le"}, "cannot be read line by line"),
            ({"encoding": "cp037"}, "cannot be read line by line"),
            ({"format": "xlsx"}, "format: 'xlsx' is not one of txt, csv, tsv, jsonl, parquet"),
            ({"max_characters": 0}, "max_characters: 0 is below 1"),
            ({"duplicates": "forget"}, "duplicates: 'forget' is neither 'keep' nor 'drop'"),
        ],
    )
    def test_what_cannot_be_used(self, options: dict, message: str) -> None:
        with pytest.raises(SettingError) as caught:
            ReadOptions(**options)
        assert message in str(caught.value)
        assert "\n" not in str(caught.value)

    def test_lines_over_the_limit_can_be_let_in(self, tmp_path: Path) -> None:
        path = tmp_path / "a.txt"
        path.write_bytes(b"a" * 5_000_000 + b"\nb\n")
        reading = read_sentences(path)
        assert list(reading) == ["b"]
        assert reading.report.tallies[Fault.OVER_LONG].examples == [(1, "5,000,000 bytes")]
        assert [len(sentence) for sentence in read_sentences(path, max_characters=5_000_000)] == [5_000_000, 1]

    @pytest.mark.parametrize("format", ["txt", "csv", "tsv", "jsonl"])
    def test_a_limit_without_end(self, format: str, tmp_path: Path) -> None:
        path = tmp_path / "a"
        path.write_bytes(b'"one"\n')
        assert len(list(read_sentences(path, format=format, max_characters=10**30))) == 1

    def test_max_characters_counts_characters_and_not_bytes(self, tmp_path: Path) -> None:
        path = tmp_path / "a.txt"
        path.write_bytes("ééééé\néééééé\n".encode())
        assert list(read_sentences(path, max_characters=5)) == ["ééééé"]


class TestEncodings:
    def test_latin_1(self, tmp_path: Path) -> None:
        path = tmp_path / "a.txt"
        path.write_bytes("café\n\x85\xa0\n".encode("latin-1"))
        reading = read_sentences(path, encoding="latin-1")
        assert list(reading) == ["café"]
        assert reading.report.count(Fault.EMPTY) == 1

    def test_a_multibyte_encoding(self, tmp_path: Path) -> None:
        path = tmp_path / "a.tsv"
        path.write_bytes("一\t二\n".encode("gb18030"))
        assert list(read_pairs(path, encoding="gb18030")) == [Pair("一", "二")]

    def test_a_codec_that_does_not_say_where_it_failed(self, tmp_path: Path) -> None:
        path = tmp_path / "a.txt"
        path.write_bytes(b"xn--a\none\n")
        reading = read_sentences(path, encoding="idna")
        assert list(reading) == ["one"]
        assert reading.report.count(Fault.INVALID_TEXT) == 1

    def test_a_codec_that_lets_half_surrogate_pairs_through(self, tmp_path: Path) -> None:
        path = tmp_path / "a.txt"
        path.write_bytes(rb"a\ud800b" + b"\none\n")
        reading = read_sentences(path, encoding="raw_unicode_escape")
        assert list(reading) == ["one"]
        assert reading.report.count(Fault.INVALID_TEXT) == 1

    @pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
    def test_utf_16_is_recognised(self, encoding: str, tmp_path: Path) -> None:
        path = tmp_path / "a.txt"
        path.write_bytes("\ufeffone\ntwo\n".encode(encoding))
        reading = read_sentences(path)
        list(reading)
        assert reading.report.notes == ["looks like UTF-16: convert it with iconv -f utf-16 -t utf-8"]


class TestDuplicates:
    CONTENT = b"one\ntwo\none\n one \nthree\ntwo\n"

    def test_kept_and_counted(self, tmp_path: Path) -> None:
        path = tmp_path / "a.txt"
        path.write_bytes(self.CONTENT)
        reading = read_sentences(path)
        assert list(reading) == ["one", "two", "one", "one", "three", "two"]
        assert reading.report.tallies[Fault.DUPLICATE].examples == [(3, ""), (4, ""), (6, "")]
        assert (reading.report.read, reading.report.kept, reading.report.dropped) == (6, 6, 0)

    def test_dropped_after_the_first(self, tmp_path: Path) -> None:
        path = tmp_path / "a.txt"
        path.write_bytes(self.CONTENT)
        reading = read_sentences(path, duplicates="drop")
        assert list(reading) == ["one", "two", "three"]
        assert reading.report.tallies[Fault.DUPLICATE_DROPPED].examples == [(3, ""), (4, ""), (6, "")]
        assert (reading.report.read, reading.report.kept, reading.report.dropped) == (6, 3, 3)

    def test_pairs_are_equal_whatever_their_score(self, tmp_path: Path) -> None:
        path = tmp_path / "a.tsv"
        path.write_bytes(b"a\tb\t1\na\tb\t2\nb\ta\t1\n")
        assert list(read_pairs(path, duplicates="drop")) == [Pair("a", "b", 1.0), Pair("b", "a", 1.0)]

    def test_lists_are_equal_only_in_full(self, tmp_path: Path) -> None:
        path = tmp_path / "a.tsv"
        path.write_bytes(b"a\tb\na\tb\tc\na\tb\n")
        lists = [ranking.sentences for ranking in read_ranking_lists(path, duplicates="drop")]
        assert lists == [("a", "b"), ("a", "b", "c")]

    def test_what_was_dropped_has_no_duplicates(self, tmp_path: Path) -> None:
        path = tmp_path / "a.tsv"
        path.write_bytes(b"a\tb\tbad\na\tb\t1\n")
        reading = read_pairs(path, duplicates="drop")
        assert list(reading) == [Pair("a", "b", 1.0)]


class TestReports:
    @pytest.fixture
    def report(self, tmp_path: Path) -> ReadReport:
        path = tmp_path / "a.txt"
        path.write_bytes(b"one\n" + b"\n" * 7 + b"t\x00wo\n\xff\n")
        reading = read_sentences(path)
        list(reading)
        return reading.report

    def test_as_text(self, report: ReadReport) -> None:
        assert str(report).splitlines() == [
            f"{report.source}: 10 read, 2 kept, 8 dropped",
            "  7 empty (dropped): lines 2, 3, 4, 5, 6, …",
            "  1 with NUL bytes (NUL bytes removed, the rest kept): line 9",
            "  1 not valid in the stated encoding (dropped; name another with encoding (--encoding)): line 10 (byte 1)",
        ]

    def test_as_data(self, report: ReadReport) -> None:
        data = json.loads(json.dumps(report.to_dict()))
        assert (data["read"], data["kept"], data["dropped"]) == (10, 2, 8)
        assert data["faults"]["nul"] == {
            "count": 1,
            "rule": "NUL bytes removed, the rest kept",
            "examples": [{"line": 9, "detail": ""}],
        }

    def test_each_iteration_begins_a_new_one(self, tmp_path: Path) -> None:
        path = tmp_path / "a.txt"
        path.write_bytes(b"one\n\n")
        reading = read_sentences(path)
        list(reading)
        first = reading.report
        list(reading)
        assert reading.report is not first
        assert reading.report == first

    def test_it_adds_up_at_every_record(self, tmp_path: Path) -> None:
        path = tmp_path / "a.txt"
        path.write_bytes(b"\none\n\xff\n\ntwo\nthree\n\n")
        reading = read_sentences(path)
        for _ in reading:
            assert reading.report.read == reading.report.kept + reading.report.dropped


class TestFingerprint:
    def test_equal_for_equal_content(self, tmp_path: Path) -> None:
        for name in ("a.txt", "b.txt"):
            (tmp_path / name).write_bytes(b"one\n")
        assert read_sentences(tmp_path / "a.txt").fingerprint() == read_sentences(tmp_path / "b.txt").fingerprint()

    def test_other_for_other_content(self, tmp_path: Path) -> None:
        (tmp_path / "a.txt").write_bytes(b"one\n")
        (tmp_path / "b.txt").write_bytes(b"two\n")
        assert read_sentences(tmp_path / "a.txt").fingerprint() != read_sentences(tmp_path / "b.txt").fingerprint()

    @pytest.mark.parametrize(
        "options",
        [
            {"columns": ["0"]},
            {"encoding": "latin-1"},
            {"format": "csv"},
            {"max_characters": 5},
            {"duplicates": "drop"},
        ],
    )
    def test_other_for_other_options(self, options: dict, tmp_path: Path) -> None:
        (tmp_path / "a.txt").write_bytes(b"one\n")
        plain = read_sentences(tmp_path / "a.txt").fingerprint()
        assert read_sentences(tmp_path / "a.txt", **options).fingerprint() != plain

    def test_other_for_other_shapes(self, tmp_path: Path) -> None:
        (tmp_path / "a.tsv").write_bytes(b"one\ttwo\n")
        assert read_pairs(tmp_path / "a.tsv").fingerprint() != read_ranking_lists(tmp_path / "a.tsv").fingerprint()

    def test_missing_file(self, tmp_path: Path) -> None:
        with pytest.raises(InputError, match="no such file"):
            read_sentences(tmp_path / "a.txt").fingerprint()

    def test_folder(self, tmp_path: Path) -> None:
        with pytest.raises(InputError, match="is a folder"):
            read_sentences(tmp_path).fingerprint()

    def test_standard_input(self) -> None:
        with pytest.raises(InputError, match="once only"):
            read_sentences("-").fingerprint()


class TestNothingKept:
    def test_records(self, tmp_path: Path) -> None:
        (tmp_path / "a.txt").write_bytes(b"one\n\n")
        reading = read_sentences(tmp_path / "a.txt")
        assert list(reading) == ["one"]
        reading.report.check_kept()

    def test_nothing_says_why(self, tmp_path: Path) -> None:
        (tmp_path / "a.txt").write_bytes(b"\n\n")
        reading = read_sentences(tmp_path / "a.txt")
        assert list(reading) == []
        with pytest.raises(InputError, match=r"nothing in it could be used") as caught:
            reading.report.check_kept()
        assert "2 empty (dropped): lines 1, 2" in str(caught.value)
