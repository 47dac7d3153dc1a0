"""The plain bytes behind a compressed file, which may hold several members of several kinds one after another.

What cannot be decompressed raises `DamagedData`, after everything before it was handed out. The usual readers
lose text without a word: those of `lzma` and `bz2` pass over a second member that is broken, and zstandard's
takes a file that was cut off for a finished one.
"""

from __future__ import annotations

import bz2
import io
import lzma
import re
import zlib
from typing import Any, BinaryIO

import zstandard

from nearer.errors import first_line

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
