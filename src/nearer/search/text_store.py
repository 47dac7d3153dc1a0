"""The texts of an index: one file of UTF-8, one of ends; any text of millions is looked up without reading the rest."""

from __future__ import annotations

import mmap
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from nearer.errors import DamagedError, InputError
from nearer.storage.pieces import Pieces

TEXTS, ENDS = "texts.bin", "ends.bin"
IDS, ID_ENDS = "ids.bin", "id_ends.bin"
ANEW = "build the index anew"


class TextStore(Sequence[str]):
    """Mapped, and each text is checked when it is first looked up; several threads may look up at once."""

    def __init__(
        self,
        folder: Path,
        count: int,
        text_bytes: int,
        texts: str = TEXTS,
        ends: str = ENDS,
        *,
        pieces: Pieces | None = None,
        back: str = ANEW,
    ) -> None:
        """count, text_bytes: what belongs to it; the files may be longer. texts, ends: their names. pieces: checksums
        of both, where there are any. back: what to do where there is damage."""
        self._path = folder / texts
        self._name, self._pieces, self._back = texts, pieces, back
        self.ends = map_array(folder / ends, np.dtype(np.int64), (count,), back)
        self._bytes = text_bytes
        check_size(self._path, text_bytes, back)
        if pieces is not None:
            pieces.check_all(ends, self.ends)
        if (int(self.ends[-1]) if count else 0) != text_bytes:
            raise DamagedError(f"{folder / ends}: does not fit to {texts}; {back}.")
        self.content: mmap.mmap | bytes = b""
        if text_bytes:
            with open(self._path, "rb") as file:
                self.content = mmap.mmap(file.fileno(), text_bytes, access=mmap.ACCESS_READ)

    def __len__(self) -> int:
        return len(self.ends)

    def __getitem__(self, row):  # type: ignore[no-untyped-def]
        if isinstance(row, slice):
            return [self[number] for number in range(*row.indices(len(self)))]
        if not -len(self) <= row < len(self):
            raise IndexError(row)
        row = row % len(self)
        if self._pieces is not None:
            self._pieces.check_row(self._name, row, self.content)
        start, end = int(self.ends[row - 1]) if row else 0, int(self.ends[row])
        try:
            if not 0 <= start <= end <= self._bytes:
                raise ValueError
            return self.content[start:end].decode()
        except ValueError:
            raise DamagedError(f"{self._path}: is damaged at text {row}; {self._back}.") from None


def encode_texts(texts: Sequence[str], start: int) -> tuple[bytes, NDArray[np.int64]]:
    """What is appended to both files for these texts, if the first of them begins at byte `start`."""
    pieces = [text.encode() for text in texts]
    lengths = np.fromiter(map(len, pieces), dtype=np.int64, count=len(pieces))
    return b"".join(pieces), start + np.cumsum(lengths)


def map_array(path: Path, dtype: np.dtype, shape: tuple[int, ...], back: str = ANEW) -> NDArray:  # type: ignore[type-arg]
    """The beginning of a file as an array: only what is looked at is read."""
    needed = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
    check_size(path, needed, back)
    if not needed:
        return np.empty(shape, dtype=dtype)
    # as a plain array: each slice of a memmap costs more than what it holds
    return np.asarray(np.memmap(path, dtype=dtype, mode="r", shape=shape))


def check_size(path: Path, needed: int, back: str = ANEW) -> None:
    try:
        size = path.stat().st_size
    except FileNotFoundError:
        raise DamagedError(f"{path}: is missing; {back}.") from None
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror or error}).") from None
    if size < needed:
        raise DamagedError(f"{path}: has {size:,} bytes, {needed:,} belong there; it was cut, {back}.")
