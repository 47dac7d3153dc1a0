"""Input made to break the readers: nothing crashes, nothing is lost without being counted."""

from __future__ import annotations

import gzip
import json
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from hostile_files import COMPRESS, FORMATS, every_compression, every_format, faults
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
from nearer.text.sources import compression_of

READERS = {
    "sentences": read_sentences,
    "pairs": read_pairs,
    "triplets": read_triplets,
    "lists": read_ranking_lists,
}


every_shape = pytest.mark.parametrize("shape", READERS)


steady = settings(derandomize=True, deadline=None)


def texts(record: str | Pair | Triplet | RankingList) -> tuple[str, ...]:
    if isinstance(record, str):
        return (record,)
    if isinstance(record, RankingList):
        return record.sentences
    return record[:2] if isinstance(record, Pair) else record


def check(reading: Reading) -> ReadReport | None:
    """Read everything; an error of ours is in order and gives None, a crash or a loss is not."""
    records = []
    try:
        records += reading
    except NearerError as error:
        check_message(str(error))
        return None
    for text in (text for record in records for text in texts(record)):
        assert text == text.strip() != ""
        assert "\x00" not in text
        assert len(text) <= reading.options.max_characters
        text.encode()  # no half surrogate pairs
    report = reading.report
    assert report.kept == len(records)
    assert report.read == report.kept + report.dropped
    str(report).encode()
    json.dumps(report.to_dict())
    return report


def check_message(message: str) -> None:
    assert len(message.splitlines()) == 1
    assert len(message) < 2000


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("hostile")


class TestMegabytesOfChance:
    @pytest.fixture(scope="class")
    def data(self) -> bytes:
        return np.random.default_rng(20).bytes(3_000_000)

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
        separator = b"," if format == "csv" else b"\t"
        headed = path.with_name(f"headed-{ord(separator)}")
        if not headed.exists():
            names = b"text anchor positive negative sentence1 sentence2".split()
            headed.write_bytes(separator.join(names) + b"\n" + path.read_bytes())
        report = check(READERS[shape](headed, format=format, encoding="latin-1"))
        assert report is not None
        assert report.read > 9_000

    def test_every_line_is_accounted_for(self, data: bytes, path: Path) -> None:
        report = check(read_sentences(path))
        assert report is not None
        assert report.read == data.count(b"\n") + (not data.endswith(b"\n"))

    @every_shape
    def test_as_parquet(self, shape: str, path: Path) -> None:
        with pytest.raises(InputError, match="not a readable Parquet file"):
            list(READERS[shape](path, format="parquet"))

    @pytest.fixture(scope="class")
    def plain(self, path: Path) -> dict[str, ReadReport | None]:
        return {format: check(read_ranking_lists(path, format=format)) for format in FORMATS}

    @pytest.mark.parametrize("compression", ["gz", "xz", "zst"])
    def test_compressed(self, compression: str, data: bytes, path: Path, plain: dict[str, ReadReport | None]) -> None:
        packed = path.with_suffix(f".{compression}")
        packed.write_bytes(COMPRESS[compression](data))
        for format in FORMATS:
            report, expected = check(read_ranking_lists(packed, format=format)), plain[format]
            assert report is not None
            assert expected is not None
            assert (report.read, report.kept, report.tallies) == (expected.read, expected.kept, expected.tallies)


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


# What the readers stumble over, more often than pure chance would bring it.
tokens = st.sampled_from(
    [
        *(b"\n", b"\r\n", b"\r", b"\t", b",", b'"', b'""', b"\x00", b"\xff", b"\xef\xbb\xbf", b"\xc3\xa9", b"a", b" "),
        *(b"[", b"]", b"{", b"}", b":", b"null", b"1e999", b"NaN", b"0.5", b'"a"', b'["a","b"]', b"\\ud800"),
        *(b'{"text":"a"}', b"text\n", b"sentence1,sentence2\n", b"anchor\tpositive\tnegative\n", b"\\u0000"),
        *(b"\xe2\x80\xa8", b"\xc2\x85", b"\x0b"),
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
