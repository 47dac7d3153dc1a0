"""Opening files, compression, and cutting bytes into lines."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
import sys
from pathlib import Path

import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from nearer.errors import InputError
from nearer.text import Fault, read_sentences, sources
from nearer.text.sources import BYTE_ORDER_MARK, RawLine, iter_lines, open_bytes

COMPRESS = {
    "gz": lambda data: gzip.compress(data, mtime=0),
    "xz": lzma.compress,
    "zst": zstandard.ZstdCompressor(write_checksum=True).compress,
    "bz2": lambda data: bz2.compress(data, 1),
}
# Enough text for several blocks of every compression, so that a cut leaves something before it.
SENTENCES = [f"sentence {number} {number * 7919 % 10007}" for number in range(40_000)]
TEXT = "".join(f"{sentence}\n" for sentence in SENTENCES).encode()

steady = settings(derandomize=True, deadline=None)
every_compression = pytest.mark.parametrize("compression", COMPRESS)


def plain_bytes(path: Path | str) -> bytes:
    with open_bytes(path) as (stream, _):
        return stream.read()


def lines_by_hand(data: bytes) -> list[bytes]:
    pieces = data.removeprefix(BYTE_ORDER_MARK).split(b"\n")
    if not pieces[-1]:
        pieces.pop()
    return [piece.removesuffix(b"\r") for piece in pieces]


hostile_bytes = st.lists(
    st.sampled_from([b"\n", b"\r", b"\r\n", b"a", b"\x00", b"\xef", BYTE_ORDER_MARK, b"abcdefgh", b"\x0b\x85"])
).map(b"".join)


class TestLines:
    @steady
    @given(data=hostile_bytes, chunk=st.integers(1, 9))
    def test_any_chunk_size_gives_the_lines_of_split(self, data: bytes, chunk: int) -> None:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(sources, "CHUNK", chunk)
            lines = list(iter_lines(io.BytesIO(data)))
        assert [line.data for line in lines] == lines_by_hand(data)

    @steady
    @given(data=hostile_bytes, chunk=st.integers(1, 9), limit=st.integers(1, 9))
    def test_lines_over_the_limit_come_with_their_length_only(self, data: bytes, chunk: int, limit: int) -> None:
        data = data.lstrip(BYTE_ORDER_MARK)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(sources, "CHUNK", chunk)
            lines = list(iter_lines(io.BytesIO(data), limit))
        pieces = data.split(b"\n")[: len(lines)]
        expected = [
            (number, None if len(piece) > limit else piece.removesuffix(b"\r"), len(piece))
            for number, piece in enumerate(pieces, start=1)
        ]
        assert lines == expected

    def test_lines_are_numbered_from_one(self) -> None:
        assert [line.number for line in iter_lines(io.BytesIO(b"a\n\nb"))] == [1, 2, 3]

    def test_a_carriage_return_goes_only_before_a_line_feed(self) -> None:
        lines = list(iter_lines(io.BytesIO(b"a\r\nb\rc\n\rd\r")))
        assert [line.data for line in lines] == [b"a", b"b\rc", b"\rd"]

    def test_a_byte_order_mark_alone_is_no_line(self) -> None:
        assert list(iter_lines(io.BytesIO(BYTE_ORDER_MARK))) == []

    def test_a_byte_order_mark_goes_from_the_first_line_only(self) -> None:
        lines = list(iter_lines(io.BytesIO(BYTE_ORDER_MARK + b"a\n" + BYTE_ORDER_MARK + b"b")))
        assert lines == [RawLine(1, b"a", 4), RawLine(2, BYTE_ORDER_MARK + b"b", 4)]


class TestFilesThatCannotBeOpened:
    def test_missing(self, tmp_path: Path) -> None:
        with pytest.raises(InputError, match=r"absent\.txt: no such file\.$"):
            list(read_sentences(tmp_path / "absent.txt"))

    def test_folder(self, tmp_path: Path) -> None:
        with pytest.raises(InputError, match="is a folder, a file is needed"):
            list(read_sentences(tmp_path))

    @pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
    def test_no_permission(self, tmp_path: Path) -> None:
        path = tmp_path / "closed.txt"
        path.write_bytes(b"a\n")
        path.chmod(0)
        with pytest.raises(InputError, match="no permission"):
            list(read_sentences(path))

    def test_permission_error(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        def refuse(*_: object) -> None:
            raise PermissionError

        monkeypatch.setattr("builtins.open", refuse)
        with pytest.raises(InputError, match="no permission"):
            list(read_sentences(tmp_path / "closed.txt"))

    def test_a_file_taken_for_a_folder(self, tmp_path: Path) -> None:
        (tmp_path / "file").write_bytes(b"")
        with pytest.raises(InputError, match="cannot be opened"):
            list(read_sentences(tmp_path / "file" / "corpus.txt"))

    def test_a_name_with_nul(self) -> None:
        with pytest.raises(InputError, match="not a file name"):
            list(read_sentences("a\x00b.txt"))

    def test_a_file_that_opens_and_cannot_be_read(self) -> None:
        path = Path("/proc/self/mem")
        if not path.exists():
            pytest.skip("needs Linux")
        with pytest.raises(InputError, match="cannot be read"):
            list(read_sentences(path))


class TestEmptyFiles:
    def test_empty_file(self, tmp_path: Path) -> None:
        (tmp_path / "empty.txt").write_bytes(b"")
        reading = read_sentences(tmp_path / "empty.txt")
        assert (list(reading), reading.report.read, reading.report.tallies) == ([], 0, {})

    def test_dev_null(self) -> None:
        assert list(read_sentences("/dev/null")) == []

    @every_compression
    def test_compressed_nothing(self, compression: str, tmp_path: Path) -> None:
        path = tmp_path / f"empty.txt.{compression}"
        path.write_bytes(COMPRESS[compression](b""))
        reading = read_sentences(path)
        assert (list(reading), reading.report.tallies) == ([], {})


class TestCompression:
    @every_compression
    def test_plain_bytes_come_back(self, compression: str, tmp_path: Path) -> None:
        path = tmp_path / "file"
        path.write_bytes(COMPRESS[compression](TEXT))
        assert plain_bytes(path) == TEXT

    @every_compression
    def test_the_name_does_not_matter(self, compression: str, tmp_path: Path) -> None:
        path = tmp_path / "corpus.txt"
        path.write_bytes(COMPRESS[compression](b"a\nb\n"))
        assert list(read_sentences(path)) == ["a", "b"]

    @every_compression
    def test_plain_text_with_a_compressed_name_is_noted(self, compression: str, tmp_path: Path) -> None:
        path = tmp_path / f"corpus.txt.{compression}"
        path.write_bytes(b"a\nb\n")
        reading = read_sentences(path)
        assert list(reading) == ["a", "b"]
        assert reading.report.notes == [f"named .{compression} but not compressed: read as it is"]

    def test_text_that_opens_like_bz2_is_text(self, tmp_path: Path) -> None:
        path = tmp_path / "corpus.txt"
        path.write_bytes(b"BZh9 is how a bz2 file begins\n")
        assert list(read_sentences(path)) == ["BZh9 is how a bz2 file begins"]

    @pytest.mark.parametrize("second", COMPRESS)
    @pytest.mark.parametrize("first", COMPRESS)
    def test_members_of_any_kinds_follow_each_other(self, first: str, second: str, tmp_path: Path) -> None:
        path = tmp_path / "file"
        path.write_bytes(COMPRESS[first](b"a\nb") + COMPRESS[second](b"c\nd\n"))
        assert plain_bytes(path) == b"a\nbc\nd\n"

    @every_compression
    def test_zeros_may_fill_up_a_member(self, compression: str, tmp_path: Path) -> None:
        path = tmp_path / "file"
        path.write_bytes(COMPRESS[compression](b"a\n") + bytes(1000) + COMPRESS[compression](b"b\n") + bytes(12))
        assert plain_bytes(path) == b"a\nb\n"

    def test_a_skippable_zst_frame_is_skipped(self, tmp_path: Path) -> None:
        path = tmp_path / "file"
        frame = b"\x50\x2a\x4d\x18" + (4).to_bytes(4, "little") + b"meta"
        path.write_bytes(frame + COMPRESS["zst"](b"a\n") + frame + COMPRESS["zst"](b"b\n"))
        assert plain_bytes(path) == b"a\nb\n"


class TestDamage:
    @every_compression
    def test_a_cut_keeps_what_came_before(self, compression: str, tmp_path: Path) -> None:
        path = tmp_path / "cut"
        data = COMPRESS[compression](TEXT)
        path.write_bytes(data[: len(data) // 2])
        reading = read_sentences(path)
        records = list(reading)
        assert 1000 < len(records) < len(SENTENCES)
        assert records == SENTENCES[: len(records)]
        (where,) = reading.report.tallies[Fault.DAMAGED].examples
        assert where == (len(records) + 1, "the file ends in the middle of its compressed data")

    @every_compression
    def test_a_cut_anywhere_is_told(self, compression: str, tmp_path: Path) -> None:
        path = tmp_path / "cut"
        data = COMPRESS[compression](b"first\nsecond\nthird\n")
        for length in range(10, len(data)):
            path.write_bytes(data[:length])
            reading = read_sentences(path)
            records = list(reading)
            assert records == ["first", "second", "third"][: len(records)], length
            assert reading.report.count(Fault.DAMAGED) == 1, length

    @every_compression
    def test_a_flipped_byte_keeps_what_came_before(self, compression: str, tmp_path: Path) -> None:
        path = tmp_path / "flipped"
        data = bytearray(COMPRESS[compression](TEXT))
        data[len(data) * 3 // 4] ^= 0xFF
        path.write_bytes(data)
        reading = read_sentences(path)
        records = list(reading)
        assert records[:10_000] == SENTENCES[:10_000]
        assert reading.report.count(Fault.DAMAGED) == 1

    @every_compression
    def test_no_flipped_byte_changes_the_text_unseen(self, compression: str, tmp_path: Path) -> None:
        path = tmp_path / "flipped"
        whole = [f"{number} and {number * 37 % 101}" for number in range(60)]
        data = COMPRESS[compression]("\n".join(whole).encode())
        for place in range(10, len(data)):
            path.write_bytes(data[:place] + bytes([data[place] ^ 0x55]) + data[place + 1 :])
            reading = read_sentences(path)
            assert list(reading) == whole or reading.report.count(Fault.DAMAGED) == 1, place

    @every_compression
    def test_a_broken_second_member_is_told(self, compression: str, tmp_path: Path) -> None:
        path = tmp_path / "file"
        second = bytearray(COMPRESS[compression](b"b\n"))
        second[len(second) // 2] ^= 0xFF
        path.write_bytes(COMPRESS[compression](b"a\n") + second)
        reading = read_sentences(path)
        assert list(reading)[:1] == ["a"]
        assert reading.report.count(Fault.DAMAGED) == 1

    @every_compression
    def test_plain_bytes_after_a_member_are_told(self, compression: str, tmp_path: Path) -> None:
        path = tmp_path / "file"
        path.write_bytes(COMPRESS[compression](b"a\n") + b"this is not compressed\n")
        reading = read_sentences(path)
        assert list(reading) == ["a"]
        assert reading.report.tallies[Fault.DAMAGED].examples == [(2, "what follows is not compressed")]

    def test_a_disk_that_fails_is_told(self) -> None:
        class FailingDisk(io.RawIOBase):
            pieces = iter([b"a\nb\nc"])

            def readable(self) -> bool:
                return True

            def readinto(self, buffer: memoryview) -> int:
                piece = next(self.pieces, None)
                if piece is None:
                    raise OSError(5, "Input/output error")
                buffer[: len(piece)] = piece
                return len(piece)

        lines = iter_lines(io.BufferedReader(FailingDisk()))  # type: ignore[arg-type]
        assert [next(lines).data, next(lines).data] == [b"a", b"b"]
        with pytest.raises(sources.DamagedStream, match="Input/output error") as caught:
            next(lines)
        assert caught.value.line == 3


class OneByteAtATime(io.BytesIO):
    def readinto(self, buffer: memoryview) -> int:
        return super().readinto(buffer[:1])


class TestStandardInput:
    def test_plain(self, monkeypatch: pytest.MonkeyPatch) -> None:
        type_in(BYTE_ORDER_MARK + b"a\nb\n", monkeypatch)
        assert list(read_sentences("-")) == ["a", "b"]

    @every_compression
    def test_compressed_and_slow(self, compression: str, monkeypatch: pytest.MonkeyPatch) -> None:
        type_in(COMPRESS[compression](b"a\nb\n"), monkeypatch)
        assert list(read_sentences("-")) == ["a", "b"]

    def test_it_is_left_open(self, monkeypatch: pytest.MonkeyPatch) -> None:
        type_in(b"a\n", monkeypatch)
        list(read_sentences("-"))
        assert not sys.stdin.closed


def type_in(data: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BufferedReader(OneByteAtATime(data))))
