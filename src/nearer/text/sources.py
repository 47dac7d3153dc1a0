"""Opening files whatever their compression, cutting bytes into lines without ever holding a huge one, decoding lines.

Compression is told by the first bytes, not by the name, so a misnamed file is still read. Lines end at a line feed; a
carriage return before it is removed. No other character ends a line.

A compressed file may hold several members of several kinds one after another. What cannot be decompressed raises
`DamagedData`, after everything before it was handed out. The usual readers lose text without a word: those of `lzma`
and `bz2` pass over a second member that is broken, and zstandard's takes a file that was cut off for a finished one.
"""

from __future__ import annotations

import bz2
import codecs
import io
import lzma
import re
import sys
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, cast

import zstandard

from nearer.errors import InputError, SettingError, first_line
from nearer.storage.checksums import check_file
from nearer.text.faults import Fault, ReadReport

LINE_LIMIT = 4 * 2**20
CHUNK = 2**20
BYTE_ORDER_MARK = b"\xef\xbb\xbf"


class DamagedStream(Exception):
    """Compressed data that cannot be read further; `line` is where it broke off."""

    def __init__(self, line: int, reason: str) -> None:
        super().__init__(reason)
        self.line = line


class RawLine(NamedTuple):
    """One line's bytes without its ending; `data` is None when the line is longer than the limit."""

    number: int
    data: bytes | None
    length: int


@contextmanager
def open_bytes(path: str | Path) -> Iterator[tuple[BinaryIO, str | None]]:
    """Open a file (or `-`, standard input) for reading; yields the plain bytes and the compression found."""
    raw = open_file(path)
    try:
        head = _read_head(raw, path)
        stream = io.BufferedReader(_Rejoined(head, raw))
        compression = compression_of(head)
        yield stream if compression is None else io.BufferedReader(Decompressed(stream)), compression
    finally:
        if str(path) != "-":
            raw.close()


class _Rejoined(io.RawIOBase):
    """A stream with the bytes that were already read put back before it; a pipe cannot be wound back."""

    def __init__(self, head: bytes, rest: io.BufferedReader) -> None:
        self.head = head
        self.rest = rest

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        if not self.head:
            return self.rest.readinto1(buffer)
        size = min(len(buffer), len(self.head))
        buffer[:size] = self.head[:size]
        self.head = self.head[size:]
        return size


def _read_head(raw: io.BufferedReader, path: str | Path) -> bytes:
    try:
        return raw.read(HEAD)
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror or error}).") from None


def open_file(path: str | Path) -> io.BufferedReader:
    """Open a file (or `-`, standard input) as it is; whatever stands against it is an `InputError`."""
    if str(path) == "-":
        return cast(io.BufferedReader, sys.stdin.buffer)
    try:
        check_file(Path(path), "make it anew")  # if it is nearer's own: constructed data, held-out records
        return open(path, "rb")
    except InputError:  # damage, which is a ValueError as well
        raise
    except FileNotFoundError:
        raise InputError(f"{path}: no such file.") from None
    except IsADirectoryError:
        raise InputError(f"{path}: is a folder, a file is needed.") from None
    except PermissionError:
        raise InputError(f"{path}: no permission to read it.") from None
    except OSError as error:
        raise InputError(f"{path}: cannot be opened ({error.strerror or error}).") from None
    except ValueError:  # a NUL in the name
        raise InputError(f"{str(path)!r}: not a file name.") from None


def iter_lines(stream: BinaryIO, limit: int = LINE_LIMIT) -> Iterator[RawLine]:
    """Cut a stream into lines. A line over `limit` bytes is passed over and yielded with its length only.

    Raises `DamagedStream` when the compressed data breaks off, after all whole lines before it were yielded;
    the piece of a line that stood before the break is lost with it.
    """
    number = 0
    pending = b""
    skipped = 0  # bytes of the present over-long line that were let go already
    while True:
        try:
            chunk = _read_some(stream)
        except (DamagedData, OSError) as error:
            raise DamagedStream(number + 1, first_line(error)) from None
        if not chunk:
            break
        pieces = (pending + chunk).split(b"\n")
        pending = pieces.pop()
        for piece in pieces:
            number += 1
            yield _line(number, piece, skipped, limit)
            skipped = 0
        if skipped or len(pending) > limit:
            skipped += len(pending)
            pending = b""
    if skipped or (pending and (number or pending != BYTE_ORDER_MARK)):
        yield _line(number + 1, pending, skipped, limit)


def _line(number: int, piece: bytes, skipped: int, limit: int) -> RawLine:
    length = skipped + len(piece)
    if length > limit:
        return RawLine(number, None, length)
    if number == 1:
        piece = piece.removeprefix(BYTE_ORDER_MARK)
    return RawLine(number, piece.removesuffix(b"\r"), length)


def _read_some(stream: BinaryIO) -> bytes:
    # read1, because a full read() over damaged data throws away what it had decompressed before the damage
    return cast(io.BufferedReader, stream).read1(CHUNK)


class TextLine(NamedTuple):
    """One decoded line, or the fault for which it has to be dropped."""

    number: int
    text: str
    fault: Fault | None = None
    detail: str = ""


def check_encoding(encoding: str) -> str:
    """The encoding's name, if lines can be cut before decoding (UTF-16 and UTF-32 cannot)."""
    try:
        cuttable = "\n".encode(encoding) == b"\n"
    except (LookupError, ValueError):  # ValueError: not a name at all, or a codec that refuses everything
        raise SettingError(f"encoding: {encoding!r} is not known; utf-8 and latin-1 are common ones.") from None
    if not cuttable:
        raise SettingError(
            f"encoding: {encoding} cannot be read line by line; convert the file: iconv -f {encoding} -t utf-8."
        )
    return encoding


def iter_text_lines(path: str | Path, encoding: str, report: ReadReport, limit: int = LINE_LIMIT) -> Iterator[TextLine]:
    """The lines of a file; those over `limit` bytes come as faults and are never held."""
    with open_bytes(path) as (stream, compression):
        suffix = Path(path).suffix.lower().lstrip(".")
        if compression is None and suffix in ("gz", "xz", "zst", "bz2"):
            report.note(f"named .{suffix} but not compressed: read as it is")
        try:
            for line in iter_lines(stream, limit):
                if line.number == 1 and line.data and line.data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
                    report.note("looks like UTF-16: convert it with iconv -f utf-16 -t utf-8")
                yield _decode(line, encoding, report)
        except DamagedStream as damage:
            report.add(Fault.DAMAGED, damage.line, str(damage))


def _decode(line: RawLine, encoding: str, report: ReadReport) -> TextLine:
    data = line.data
    if data is None:
        return TextLine(line.number, "", Fault.OVER_LONG, f"{line.length:,} bytes")
    if b"\x00" in data:
        report.add(Fault.NUL, line.number)
        data = data.replace(b"\x00", b"")
    try:
        return TextLine(line.number, data.decode(encoding))
    except UnicodeDecodeError as error:
        return TextLine(line.number, "", Fault.INVALID_TEXT, f"byte {error.start + 1}")
    except UnicodeError as error:  # some codecs do not say where
        return TextLine(line.number, "", Fault.INVALID_TEXT, first_line(error))


HEAD = 10  # bytes needed to tell the compression
PIECE = 256  # compressed bytes handed on at once: damage costs no more than these hold
STEP = 2**16
XZ_MEMORY = 2**30  # bytes that a member may ask for; `xz -9` asks for 65 MiB

# The bytes that a member opens with. bz2 is told by its first block too: plain text can open with "BZh".
MAGIC = {
    "gz": re.compile(rb"\x1f\x8b\x08"),
    "xz": re.compile(rb"\xfd7zXZ\x00"),
    "zst": re.compile(rb"\x28\xb5\x2f\xfd|[\x50-\x5f]\x2a\x4d\x18"),
    "bz2": re.compile(rb"BZh[1-9](1AY&SY|\x17rE8P\x90)"),
}

# MemoryError: a damaged header can ask for a window of gigabytes.
FAILURES = (EOFError, OSError, MemoryError, zlib.error, lzma.LZMAError, zstandard.ZstdError)


class DamagedData(Exception):
    """Compressed data that cannot be read further."""


def compression_of(head: bytes) -> str | None:
    """The compression that a file's first bytes tell; its name may lie."""
    return next((name for name, magic in MAGIC.items() if magic.match(head)), None)


def _decompressor(kind: str) -> Any:
    if kind == "gz":
        return zlib.decompressobj(wbits=31)
    if kind == "xz":
        return lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=XZ_MEMORY)
    if kind == "bz2":
        return bz2.BZ2Decompressor()
    return zstandard.ZstdDecompressor().decompressobj()


class Decompressed(io.RawIOBase):
    """A readable stream over the members of a compressed one."""

    def __init__(self, source: BinaryIO) -> None:
        self.source = source
        self.member: Any = None
        self.waiting = b""  # compressed bytes taken from the source and not yet handed on
        self.ready = bytearray()
        self.finished = False
        self.damage = ""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while len(self.ready) < len(buffer) and not self.finished:
            try:
                self._more()
            except (*FAILURES, DamagedData) as error:
                self.damage = first_line(error)
                self.finished = True
        if self.damage and not self.ready:
            raise DamagedData(self.damage)
        size = min(len(buffer), len(self.ready))
        buffer[:size] = self.ready[:size]
        del self.ready[:size]
        return size

    def _more(self) -> None:
        if self.member is None or self.member.eof:
            self._next_member()
        elif hasattr(self.member, "needs_input"):  # xz and bz2, where few bytes can stand for many megabytes
            self.ready += self.member.decompress(self._piece() if self.member.needs_input else b"", STEP)
        else:
            self.ready += self.member.decompress(self._piece())

    def _next_member(self) -> None:
        head = b"" if self.member is None else self.member.unused_data.lstrip(b"\x00")  # zeros may fill up a member
        while len(head) < HEAD and (more := self.source.read(PIECE)):
            head = (head + more).lstrip(b"\x00")
        kind = compression_of(head)
        if not head:
            self.finished = True
        elif kind is None:
            raise DamagedData("what follows is not compressed")
        else:
            self.member = _decompressor(kind)
            self.waiting = head

    def _piece(self) -> bytes:
        piece = self.waiting or self.source.read(PIECE)
        self.waiting = b""
        if not piece:
            raise EOFError("the file ends in the middle of its compressed data")
        return piece
