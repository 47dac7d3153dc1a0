"""A compressed file unpacked onto the disk, for formats that cannot be read front to back."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from nearer.errors import InputError, first_line
from nearer.text.compression import DamagedData
from nearer.text.sources import CHUNK, open_bytes, open_file
from nearer.units import as_bytes, parsed_bytes

VARIABLE = "NEARER_MAX_UNPACKED"
# Without the variable: what is packed already (as Parquet is) hardly shrinks, and small files may
RATIO = 100
LEAST = 64 * 2**20


@contextmanager
def seekable(path: str) -> Iterator[BinaryIO]:
    """The file itself, or a plain copy of it that is gone afterwards."""
    with open_bytes(path) as (stream, compression):
        if compression is None and path != "-":
            with open_file(path) as file:
                yield file
            return
        with tempfile.TemporaryFile() as copy:
            try:
                _unpack(path, stream, copy, packed=compression is not None)
            except (DamagedData, OSError) as error:
                raise InputError(f"{path}: cannot be decompressed ({first_line(error)}).") from None
            copy.seek(0)
            yield copy


def _unpack(path: str, stream: BinaryIO, copy: BinaryIO, *, packed: bool) -> None:
    size = 0 if path == "-" else Path(path).stat().st_size
    told = os.environ.get(VARIABLE)
    most = parsed_bytes(told, VARIABLE) if told else max(LEAST, RATIO * size)
    free = shutil.disk_usage(tempfile.gettempdir()).free
    written = 0
    while chunk := stream.read(CHUNK):
        written += len(chunk)
        if packed and written > most:
            raise InputError(
                f"{path}: unpacks to more than {as_bytes(most)}; if that is right, set {VARIABLE} to a larger size, "
                "such as 20GB."
            )
        if written > free * 9 // 10:
            raise InputError(
                f"{path}: needs more than the {as_bytes(free)} that are free in {tempfile.gettempdir()}; make room "
                "there, or set TMPDIR to a folder elsewhere."
            )
        copy.write(chunk)
