"""FAISS' approximate structures over an index' vectors: lists around centres (IVF), or a graph of neighbours (HNSW).

They only propose rows; scores are computed from the vectors themselves. So they can hold them in float16.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Self

import numpy as np

from nearer.errors import DamagedError, InputError, first_line
from nearer.progress import Advance
from nearer.search.exact import Rows, Vectors, faiss
from nearer.search.manifest import Kind, Manifest
from nearer.search.texts import check_size
from nearer.storage.checksums import FileSum, differs, file_sum
from nearer.storage.whole import whole_file

# k-means needs some tens of vectors for each centre, and gains little by more
TRAINED_PER_LIST = 40
ROWS_AT_ONCE = 2**14
LINKS = 32
EFFORT_OF_BUILDING = 80


class Structure:
    """One FAISS index; safe for several threads that search."""

    def __init__(self, index: Any, kind: Kind) -> None:
        self._index = index
        self.kind = kind

    @classmethod
    def build(cls, kind: Kind, vectors: Vectors, groups: int, seed: int, advance: Advance) -> Self:
        """groups: lists of an IVF, links of an HNSW."""
        library = faiss()
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
        library, path = faiss(), folder / made.file
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
        library = faiss()
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
                faiss().write_index(self._index, str(partial))
        except RuntimeError as error:
            reason = first_line(error).rpartition(": ")[2]
            raise InputError(f"{path}: cannot be written ({reason}).") from None
        return file_sum(path)
