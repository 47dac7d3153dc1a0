"""What a run has computed, on disk with checksums: made once, and made again where it is damaged.

    NAME.npz, NAME.json   arrays that are made together, and their checksum
    NAME/vectors.bin      vectors, float16, one row after the other; NAME/pieces.bin has a checksum of each window

Vectors come window by window, so an interruption costs one window. They are mapped, not read: of millions only those
that are looked at are in memory.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Generator, Mapping
from contextlib import closing
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from nearer.errors import DamagedError
from nearer.storage.checksums import FileSum, differs, file_sum
from nearer.storage.pieces import Pieces, PieceWriter
from nearer.storage.sealed import read_sealed_json, write_sealed_json
from nearer.storage.whole import make_folder, whole_file

Arrays = Mapping[str, NDArray[np.generic]]
Vectors = NDArray[np.float16]

VECTORS = "vectors.bin"
BACK = "remove the folder, it is made again"


class Kept:
    """Arrays and vectors of one run, by their names."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def get(self, name: str, make: Callable[[], Arrays]) -> dict[str, NDArray[np.generic]]:
        path, seal = self.folder / f"{name}.npz", self.folder / f"{name}.json"
        if _is_whole(path, seal):
            with np.load(path, allow_pickle=False) as loaded:
                return {key: loaded[key] for key in loaded.files}
        made = dict(make())
        make_folder(self.folder)
        seal.unlink(missing_ok=True)
        with whole_file(path) as partial, open(partial, "wb") as file:
            np.savez(file, **made)  # type: ignore[arg-type]
        sums = file_sum(path)
        write_sealed_json(seal, {"size": sums.size, "sum": sums.sum})
        return made

    def vectors(
        self, name: str, count: int, dimension: int, make: Callable[[int], Generator[NDArray[np.floating]]]
    ) -> Vectors:
        """Vectors (count, dimension), of which only those are made that are not there.

        make: is given the first row that is missing, and yields this and all further rows, in windows.
        """
        folder = self.folder / name
        done = _whole_rows(folder, count, dimension)
        if done < count:
            make_folder(folder)
            with (
                open(folder / VECTORS, "ab") as file,
                closing(PieceWriter(folder, (VECTORS,), BACK, rows=done)) as pieces,
                closing(make(done)) as windows,
            ):
                file.truncate(done * _row_bytes(dimension))
                for window in windows:
                    content = np.ascontiguousarray(window, dtype=np.float16)
                    file.write(content.data)
                    file.flush()
                    os.fsync(file.fileno())  # a checksum must not outlive a power cut that its rows do not
                    pieces.append([(len(content), [content])])
        # as a plain array: each slice of a memmap costs more than what it holds
        return np.asarray(np.memmap(folder / VECTORS, dtype=np.float16, mode="r", shape=(count, dimension)))


def _row_bytes(dimension: int) -> int:
    return dimension * np.dtype(np.float16).itemsize


def _whole_rows(folder: Path, count: int, dimension: int) -> int:
    """How many rows of a folder can be gone on with; one that is damaged, or another's, is removed."""
    if not folder.exists():
        return 0
    try:
        pieces = Pieces(folder, (VECTORS,), BACK)
        if pieces.rows:
            pieces.check_all(VECTORS, np.asarray(np.memmap(folder / VECTORS, dtype=np.uint8, mode="r")))
        if pieces.rows <= count and pieces.bytes(VECTORS) == pieces.rows * _row_bytes(dimension):
            return pieces.rows
    except (OSError, ValueError, DamagedError):
        pass
    shutil.rmtree(folder)
    return 0


def _is_whole(path: Path, seal: Path) -> bool:
    try:
        facts = read_sealed_json(seal, "")
        return path.is_file() and not differs(path, FileSum(facts["size"], facts["sum"]))
    except Exception:  # not there, or damaged: made again either way
        return False
