"""Input made to break the readers: nothing crashes, nothing is lost without being counted."""

from __future__ import annotations

import bz2
import gzip
import json
import lzma
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zstandard
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from nearer.errors import InputError, NearerError
from nearer.text import (
    Fault,
    Pair,
    RankingList,
    Reading,
    ReadReport,
    Triplet,
    read_pairs,
    read_ranking_lists,
    read_sentences,
    read_triplets,
)
from nearer.text.compression import compression_of

READERS = {
    "sentences": read_sentences,
    "pairs": read_pairs,
    "triplets": read_triplets,
    "lists": read_ranking_lists,
}
FORMATS = ("txt", "csv", "tsv", "jsonl")
COMPRESS = {
    "plain": bytes,
    "gz": lambda data: gzip.compress(data, 1),
    "xz": lambda data: lzma.compress(data, preset=0),
    "zst": zstandard.ZstdCompressor(write_checksum=True).compress,
    "bz2": bz2.compress,
}

every_shape = pytest.mark.parametrize("shape", READERS)
every_format = pytest.mark.parametrize("format", FORMATS)
every_compression = pytest.mark.parametrize("compression", COMPRESS)
steady = settings(derandomize=True, deadline=None)


def texts(record: str | Pair | Triplet | RankingList) -> tuple[str, ...]:
    if isinstance(record, str):
        return (record,)
    if isinstance(record, RankingList):
        return record.sentences
    return record[:2] if isinstance(record, Pair) else record


def check(reading: Reading) -> ReadReport | None:
    """Read everything; an error of ours is in order, a crash or a loss is not."""
    kept = 0
    try:
        for record in reading:
            kept += 1
            for text in texts(record):
                assert text == text.strip() != ""
                assert "\x00" not in text
                assert len(text) <= reading.options.max_characters
                text.encode()  # no half surrogate pairs
    except NearerError as error:
        assert len(str(error).splitlines()) == 1
        assert len(str(error)) < 2000
        return None
    report = reading.report
    assert kept == report.kept
    assert report.read == report.kept + report.dropped
    str(report).encode()
    json.dumps(report.to_dict())
    return report


def faults(report: ReadReport) -> dict[str, list[int]]:
    return {fault.name: [line for line, _ in tally.examples] for fault, tally in report.tallies.items()}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("hostile")


class TestTenMegabytesOfChance:
    @pytest.fixture(scope="class")
    def data(self) -> bytes:
        return np.random.default_rng(20).bytes(10_000_000)

    @pytest.fixture(scope="class")
    def path(self, data: bytes, folder: Path) -> Path:
        path = folder / "chance"
        path.write_bytes(data)
        return path

    @every_format
    @every_shape
    def test_every_reader(self, shape: str, format: str, path: Path) -> None:
        check(READERS[shape](path, format=format))

    @every_format
    @every_shape
    def test_every_reader_when_all_bytes_are_letters(self, shape: str, format: str, path: Path) -> None:
        """In Latin-1 nothing is invalid, so the chaos reaches the parsers; the header lets tables begin."""
        headed = path.with_name("headed")
        if not headed.exists():
            names = b"text anchor positive negative sentence1 sentence2".split()
            headed.write_bytes(b",".join(names) + b"\n" + b"\t".join(names) + b"\n" + path.read_bytes())
        report = check(READERS[shape](headed, format=format, encoding="latin-1"))
        if report is not None:
            assert report.read > 30_000

    def test_every_line_is_accounted_for(self, data: bytes, path: Path) -> None:
        report = check(read_sentences(path))
        assert report is not None
        assert report.read == data.count(b"\n") + (not data.endswith(b"\n"))

    @every_shape
    def test_as_parquet(self, shape: str, path: Path) -> None:
        with pytest.raises(InputError, match="not a readable Parquet file"):
            list(READERS[shape](path, format="parquet"))

    @pytest.mark.parametrize("compression", ["gz", "xz", "zst", "bz2"])
    def test_compressed(self, compression: str, data: bytes, path: Path) -> None:
        packed = path.with_suffix(f".{compression}")
        packed.write_bytes(COMPRESS[compression](data))
        for format in FORMATS:
            plain = check(read_ranking_lists(path, format=format))
            report = check(read_ranking_lists(packed, format=format))
            assert plain is not None
            assert report is not None
            assert (report.read, report.kept, report.tallies) == (plain.read, plain.kept, plain.tallies)


class TestOneLineOfFiftyMegabytes:
    LENGTH = 50_000_000

    @pytest.fixture(scope="class")
    def packed(self) -> dict[str, bytes]:
        data = b'"before"\n' + b"a" * self.LENGTH + b'\n"after"\n'
        return {compression: compress(data) for compression, compress in COMPRESS.items()}

    @every_compression
    @every_format
    def test_it_is_dropped_and_never_held(
        self, format: str, compression: str, packed: dict[str, bytes], folder: Path
    ) -> None:
        path = folder / f"long.{compression}"
        if not path.exists():
            path.write_bytes(packed[compression])
        reading = read_sentences(path, format=format)
        tracemalloc.start()
        records = list(reading)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert [record.strip('"') for record in records] == ["before", "after"]
        assert reading.report.tallies[Fault.OVER_LONG].examples == [(2, f"{self.LENGTH:,} bytes")]
        assert peak < 40_000_000

    def test_after_an_open_quote(self, folder: Path) -> None:
        path = folder / "quoted.csv"
        path.write_bytes(b'"open\n' + b"a" * self.LENGTH + b'\nclosed"\n')
        reading = read_sentences(path)
        assert list(reading) == ['closed"']
        assert faults(reading.report) == {"BAD_QUOTES": [1], "OVER_LONG": [2]}

    def test_without_an_ending(self, folder: Path) -> None:
        path = folder / "endless.txt"
        path.write_bytes(b"a" * self.LENGTH)
        reading = read_sentences(path)
        assert list(reading) == []
        assert faults(reading.report) == {"OVER_LONG": [1]}

    def test_as_a_parquet_cell(self, folder: Path) -> None:
        arrow = pytest.importorskip("pyarrow")
        parquet = pytest.importorskip("pyarrow.parquet")
        path = folder / "long.parquet"
        parquet.write_table(arrow.table({"text": ["before", "a" * self.LENGTH, "after"]}), path)
        reading = read_sentences(path)
        assert list(reading) == ["before", "after"]
        assert faults(reading.report) == {"OVER_LONG": [2]}


class TestEveryFaultByHand:
    TXT = (
        b"\xef\xbb\xbffirst\r\n"  # 1
        b"\n"  # 2 empty
        b"caf\xe9\n"  # 3 Latin-1
        b"se\x00cond\r\n"  # 4 NUL
        b"first\n"  # 5 duplicate
        + b"x"
        * 10_001  # 6 over-long
        + b"\n \t\r\n"  # 7 empty
        b"th\rird\n"  # 8
        b"\x00\xff\n"  # 9 NUL and invalid
        + b"y" * 5_000_000  # 10 over-long
        + "\nfo\u2028ur\x85th\n".encode()  # 11
        + b"second"  # 12 duplicate, without an ending
    )
    TXT_KEPT = ((1, "first"), (4, "second"), (8, "th\rird"), (11, "fo\u2028ur\x85th"))
    TXT_FAULTS = {  # noqa: RUF012
        "EMPTY": [2, 7],
        "INVALID_TEXT": [3, 9],
        "NUL": [4, 9],
        "DUPLICATE_DROPPED": [5, 12],
        "OVER_LONG": [6, 10],
    }

    CSV = (
        b'\xef\xbb\xbf"a, 1",b,0.5\r\n'  # 1
        b"\r\n"  # 2 empty
        b"c,\xff,1\n"  # 3 invalid
        b"c,d\n"  # 4 columns
        b"c,d,1,2\n"  # 5 columns
        b'c,"d\n'  # 6, 7
        b'd",1\n'
        b'"c" d,e,1\n'  # 8 quotes
        b"c,d,nan\n"  # 9 score
        b"c,,1\n"  # 10 empty
        b"c\x00,d,2\n"  # 11 NUL
        b'"a, 1",b,0.9\n'  # 12 duplicate
        + b"x" * 10_001  # 13 over-long
        + b",d,1\n"
        + b"z" * 5_000_000  # 14 over-long
        + b'\n"never closed,d,1\n'  # 15 quotes
        b"e,f,2\n"  # 16
        b'g,"h'  # 17 quotes, without an ending
    )
    CSV_KEPT = ((1, Pair("a, 1", "b", 0.5)), (6, Pair("c", "d\nd", 1.0)), (11, Pair("c", "d", 2.0))) + (
        (16, Pair("e", "f", 2.0)),
    )
    CSV_FAULTS = {  # noqa: RUF012
        "EMPTY": [2, 10],
        "INVALID_TEXT": [3],
        "WRONG_COLUMNS": [4, 5],
        "BAD_QUOTES": [8, 15, 17],
        "BAD_SCORE": [9],
        "NUL": [11],
        "DUPLICATE_DROPPED": [12],
        "OVER_LONG": [13, 14],
    }

    TSV = (
        b"\t\n"  # 1 empty
        b"\xff\n"  # 2 invalid
        b"hard_negative\tanchor\tid\tpositive\r\n"  # 3 header
        b"c\ta\t1\tb\r\n"  # 4
        b"c\ta\t2\n"  # 5 columns
        b"\n"  # 6 empty
        b"c\x00\ta\t3\tb\n"  # 7 NUL, duplicate
        b'"f\td\t4\te"\n'  # 8
        b"c\ta\t5\t\n"  # 9 empty
        + b"x"
        * 10_001  # 10 over-long
        + b"\ta\t6\tb\n"
        b"i\tg\t\xc3\th\n"  # 11 invalid, though in a column that is not used
    )
    TSV_KEPT = ((4, Triplet("a", "b", "c")), (8, Triplet("d", 'e"', '"f')))
    TSV_FAULTS = {  # noqa: RUF012
        "EMPTY": [1, 6, 9],
        "INVALID_TEXT": [2, 11],
        "WRONG_COLUMNS": [5],
        "NUL": [7],
        "DUPLICATE_DROPPED": [7],
        "OVER_LONG": [10],
    }

    JSONL = (
        b'\xef\xbb\xbf["a", "b"]\r\n'  # 1
        b"\n"  # 2 empty
        b'["\xff", "b"]\n'  # 3 invalid
        b'["a"]\n'  # 4 columns
        b'{"list": ["a", "b"]}\n'  # 5 duplicate
        b'["a", "b"\n'  # 6 JSON
        b'["a", 7]\n'  # 7 fields
        b'["\\ud800", "b"]\n'  # 8 half a surrogate pair
        b'["a\\u0000", "c"]\n'  # 9 NUL
        b'["a\x00", "d"]\n'  # 10 NUL
        + b"["
        * 100_000  # 11 JSON
        + b'\n["a", " "]\n'  # 12 empty
        b'["a", "' + b"x" * 10_001 + b'"]\n'  # 13 over-long
        b"null\n"  # 14 fields
        + b'"'
        + b"y" * 5_000_000  # 15 over-long
        + b'"\n["a", "e"]'  # 16
    )
    JSONL_KEPT = tuple(
        (line, RankingList(("a", second))) for line, second in ((1, "b"), (9, "c"), (10, "d"), (16, "e"))
    )
    JSONL_FAULTS = {  # noqa: RUF012
        "EMPTY": [2, 12],
        "INVALID_TEXT": [3, 8],
        "WRONG_COLUMNS": [4],
        "DUPLICATE_DROPPED": [5],
        "BAD_JSON": [6, 11],
        "WRONG_FIELDS": [7, 14],
        "NUL": [9, 10],
        "OVER_LONG": [13, 15],
    }

    @every_compression
    @pytest.mark.parametrize(
        ("format", "reader"),
        [("txt", read_sentences), ("csv", read_pairs), ("tsv", read_triplets), ("jsonl", read_ranking_lists)],
    )
    def test_each_where_it_stands(self, format: str, reader: Any, compression: str, tmp_path: Path) -> None:
        path = tmp_path / f"corpus.{format}.{compression}"
        content = getattr(self, format.upper())
        path.write_bytes(COMPRESS[compression](content))
        reading = reader(path, duplicates="drop")
        assert tuple(reading.located()) == getattr(self, f"{format.upper()}_KEPT")
        assert faults(reading.report) == getattr(self, f"{format.upper()}_FAULTS")
        assert reading.report.read == reading.report.kept + reading.report.dropped


# What the readers stumble over, more often than pure chance would bring it.
tokens = st.sampled_from(
    [
        b"\n",
        b"\r\n",
        b"\r",
        b"\t",
        b",",
        b'"',
        b'""',
        b"\x00",
        b"\xff",
        b"\xef\xbb\xbf",
        b"\xc3\xa9",
        b"a",
        b"text",
        b" ",
    ]
    + [b"[", b"]", b"{", b"}", b":", b"null", b"1e999", b"NaN", b"0.5", b'"a"', b'["a","b"]', b"\\ud800", b"\\u0000"]
    + [
        b'{"text":"a"}',
        b"sentence1,sentence2\n",
        b"anchor\tpositive\tnegative\n",
        b"\xe2\x80\xa8",
        b"\xc2\x85",
        b"\x0b",
    ]
)
hostile_bytes = st.one_of(st.binary(max_size=300), st.lists(tokens, max_size=60).map(b"".join))
magic = st.sampled_from([compress(b"a\nb\n")[:length] for compress in COMPRESS.values() for length in (4, 10, 14)])


class TestArbitraryBytes:
    @pytest.mark.parametrize("format", [*FORMATS, "parquet"])
    @every_shape
    @steady
    @given(data=hostile_bytes)
    def test_no_reader_crashes(self, shape: str, format: str, data: bytes, folder: Path) -> None:
        path = folder / "arbitrary"
        path.write_bytes(data)
        check(READERS[shape](path, format=format))

    @steady
    @given(data=hostile_bytes, encoding=st.sampled_from(["latin-1", "shift_jis", "utf-7", "hz", "raw_unicode_escape"]))
    def test_no_encoding_crashes(self, data: bytes, encoding: str, folder: Path) -> None:
        path = folder / "arbitrary"
        path.write_bytes(data)
        for format in FORMATS:
            check(read_sentences(path, format=format, encoding=encoding))

    @steady
    @given(head=magic, tail=st.binary(max_size=300))
    def test_no_compression_crashes(self, head: bytes, tail: bytes, folder: Path) -> None:
        path = folder / "arbitrary"
        path.write_bytes(head + tail)
        for format in (*FORMATS, "parquet"):
            check(read_sentences(path, format=format))

    @steady
    @given(
        members=st.lists(st.tuples(st.sampled_from(["gz", "xz", "zst", "bz2"]), hostile_bytes), min_size=1, max_size=5)
    )
    def test_mixed_compression_reads_like_plain_text(self, members: list[tuple[str, bytes]], folder: Path) -> None:
        packed, plain = folder / "packed", folder / "plain"
        plain.write_bytes(b"-" + b"".join(data for _, data in members))  # never taken for a compressed file itself
        packed.write_bytes(gzip.compress(b"-") + b"".join(COMPRESS[kind](data) for kind, data in members))
        expected, reading = read_sentences(plain), read_sentences(packed)
        assert list(reading.located()) == list(expected.located())
        assert reading.report.tallies == expected.report.tallies


def sentences_by_hand(data: bytes, max_characters: int) -> tuple[list[str], dict[str, list[int]]]:
    """The rules of plain text, one after the other."""
    kept: list[str] = []
    found: dict[str, list[int]] = {}
    lines = data.removeprefix(b"\xef\xbb\xbf").split(b"\n")
    if lines[-1] == b"":
        lines.pop()
    for number, line in enumerate(lines, start=1):
        if line.endswith(b"\r"):
            line = line[:-1]
        if 0 in line:
            found.setdefault("NUL", []).append(number)
            line = bytes(byte for byte in line if byte != 0)
        try:
            text = str(line, "utf-8").strip()
        except UnicodeDecodeError:
            found.setdefault("INVALID_TEXT", []).append(number)
            continue
        if text == "":
            found.setdefault("EMPTY", []).append(number)
        elif len(text) > max_characters:
            found.setdefault("OVER_LONG", []).append(number)
        else:
            if text in kept:
                found.setdefault("DUPLICATE", []).append(number)
            kept.append(text)
    return kept, found


class TestPlainTextByHand:
    @settings(steady, max_examples=300)
    @given(data=hostile_bytes, max_characters=st.integers(1, 20))
    def test_the_reader_agrees(self, data: bytes, max_characters: int, folder: Path) -> None:
        assume(compression_of(data[:10]) is None)
        path = folder / "by-hand.txt"
        path.write_bytes(data)
        kept, found = sentences_by_hand(data, max_characters)
        reading = read_sentences(path, max_characters=max_characters)
        assert list(reading) == kept
        assert {fault.name: tally.count for fault, tally in reading.report.tallies.items()} == {
            name: len(lines) for name, lines in found.items()
        }
        assert faults(reading.report) == {name: lines[:5] for name, lines in found.items()}
