"""The nearest vectors by FAISS: by looking at all of them, or by an approximate structure over them.

Structures are lists around centres (IVF) or a graph of neighbours (HNSW). They only propose rows, and can hold vectors
in float16: scores are computed from the vectors themselves.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from nearer.errors import DamagedError, InputError, first_line
from nearer.extras import require
from nearer.search.manifest import Kind, Manifest
from nearer.search.text_store import check_size
from nearer.storage.checksums import FileSum, differs, file_sum
from nearer.storage.whole import whole_file
from nearer.terminal import Advance

Vectors = NDArray[np.float32]
Rows = NDArray[np.int64]
# Candidates beyond those that are wanted. Structures hold vectors in float16, and matrix products differ in their last
# bits, so that near the end of a list equal and nearly equal ones can stand in any order until they are scored exactly.
MARGIN = 16


# k-means needs some tens of vectors for each centre, and gains little by more
TRAINED_PER_LIST = 40
ROWS_AT_ONCE = 2**14
LINKS = 32
EFFORT_OF_BUILDING = 80


def load_faiss() -> Any:
    return require("faiss", "search", "searching an index")


def find_nearest_rows(vectors: Vectors, queries: Vectors, k: int) -> Rows:
    """For each of the unit queries its k nearest rows (queries, k) by inner product; k is at most len(vectors)."""
    library = load_faiss()
    _, rows = library.knn(np.ascontiguousarray(queries), vectors, k, metric=library.METRIC_INNER_PRODUCT)
    found: Rows = rows
    return found


def score_rows(
    vectors_of: Callable[[Rows], Vectors], query: Vectors, rows: Rows, k: int
) -> tuple[Rows, NDArray[np.float64]]:
    """The k best of these rows with their inner products with the query, falling; equal ones in order of rows.

    In float64, each row by itself: equal vectors get equal scores, which a matrix product does not promise.
    """
    rows = np.unique(rows)
    scores = (vectors_of(rows).astype(np.float64) * query.astype(np.float64)).sum(axis=-1)
    order = np.argsort(-scores, kind="stable")[:k]
    return rows[order], scores[order]


class Structure:
    """One FAISS index; safe for several threads that search."""

    def __init__(self, index: Any, kind: Kind) -> None:
        self._index = index
        self.kind = kind

    @classmethod
    def build(cls, kind: Kind, vectors: Vectors, groups: int, seed: int, advance: Advance) -> Self:
        """groups: lists of an IVF, links of an HNSW."""
        library = load_faiss()
        dimension, inner = vectors.shape[1], library.METRIC_INNER_PRODUCT
        half = library.ScalarQuantizer.QT_fp16
        if kind == "ivf":
            centres = library.IndexFlatIP(dimension)
            index = library.IndexIVFScalarQuantizer(centres, dimension, groups, half, inner, False)
            index.cp.seed, index.cp.spherical = seed + 1, True  # FAISS takes 0 for "any"
            index.cp.min_points_per_centroid = 1  # no warning on standard error
            taken = min(len(vectors), TRAINED_PER_LIST * groups)
            chosen = np.sort(np.random.default_rng(seed).choice(len(vectors), taken, replace=False))
            index.train(vectors[chosen])
        else:
            index = library.IndexHNSWSQ(dimension, half, groups, inner)
            index.hnsw.efConstruction = EFFORT_OF_BUILDING
            index.train(vectors[:1])
        made = cls(index, kind)
        made.add(vectors, advance)
        return made

    @classmethod
    def open(cls, folder: Path, manifest: Manifest, *, change: bool) -> Self | None:
        """None where the index has none. change: read as a whole, so that it can be added to; else mapped."""
        made, kind, back = manifest.structure, manifest.kind, manifest.way_back
        if made is None:
            return None
        library, path = load_faiss(), folder / made.file
        check_size(path, made.size, back)
        if path.stat().st_size != made.size:
            raise DamagedError(f"{path}: has {path.stat().st_size:,} bytes, {made.size:,} belong there; {back}.")
        if made.sum is not None and (fault := differs(path, FileSum(made.size, made.sum))):
            raise DamagedError(f"{path}: {fault}; {back}.")
        flags = library.IO_FLAG_MMAP | library.IO_FLAG_READ_ONLY if kind == "ivf" else library.IO_FLAG_MMAP_IFC
        try:
            index = library.read_index(str(path), 0 if change else flags)
        except RuntimeError as error:
            reason = first_line(error).rpartition("Error: ")[2]
            raise DamagedError(f"{path}: is damaged ({reason}); {back}.") from None
        expected = library.IndexIVFScalarQuantizer if kind == "ivf" else library.IndexHNSWSQ
        if not isinstance(index, expected) or (index.ntotal, index.d) != (manifest.count, manifest.dimension):
            raise DamagedError(
                f"{path}: holds {index.ntotal:,} vectors of {index.d} numbers ({type(index).__name__}), the manifest "
                f"says {manifest.count:,} of {manifest.dimension} ({kind}); {back}."
            )
        if kind == "ivf" and index.nlist != made.groups:
            raise DamagedError(f"{path}: has {index.nlist} lists, the manifest says {made.groups}; {back}.")
        return cls(index, kind)

    @property
    def size(self) -> int:
        return int(self._index.ntotal)

    def add(self, vectors: Vectors, advance: Advance) -> None:
        """Those behind the ones it has: `vectors` are all of the index."""
        for start in range(self.size, len(vectors), ROWS_AT_ONCE):
            part = vectors[start : start + ROWS_AT_ONCE]
            self._index.add(np.ascontiguousarray(part))
            advance(len(part))

    def propose(self, queries: Vectors, k: int, effort: int) -> Rows:
        """Rows (queries, k) that are likely the nearest; −1 where it found no more."""
        library = load_faiss()
        if self.kind == "ivf":
            parameters = library.SearchParametersIVF(nprobe=effort)
        else:
            parameters = library.SearchParametersHNSW(efSearch=max(effort, k))
        _, rows = self._index.search(np.ascontiguousarray(queries), k, params=parameters)
        found: Rows = rows
        return found

    def write(self, path: Path) -> FileSum:
        """Under its name when it is whole; returns the file's size and checksum."""
        try:
            with whole_file(path) as partial:
                load_faiss().write_index(self._index, str(partial))
        except RuntimeError as error:
            reason = first_line(error).rpartition(": ")[2]
            raise InputError(f"{path}: cannot be written ({reason}).") from None
        return file_sum(path)
