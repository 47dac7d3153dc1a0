"""What the checksums of an index cost in opening and searching it: python benchmarks/checksum_cost.py [rows]

The same index is opened with them and without (as format 2, which has none), in turn. Its vectors are random, of 256
numbers, and its texts short. "cold": the files were dropped from the system's memory before, as far as it allows that.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from nearer.search import SearchIndex
from nearer.search.manifest import FORMAT, Manifest, ModelFacts, SourceFacts, StructureFacts
from nearer.search.nearest_neighbours import Structure, load_faiss
from nearer.search.row_store import Extent, NewRows, RowWriter
from nearer.storage.sealed import write_sealed_json

DIMENSION, WINDOW, QUERIES, TIMES = 256, 2048, 64, 5
LISTS, PROBES = 256, 16


def make(folder: Path, rows: int) -> None:
    draw = np.random.default_rng(0)
    with RowWriter(folder, DIMENSION, Extent()) as writer:
        for start in range(0, rows, WINDOW):
            numbers = np.arange(start, min(rows, start + WINDOW), dtype=np.int64)
            vectors = draw.standard_normal((len(numbers), DIMENSION), dtype=np.float32)
            vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
            texts = [
                f"the sentence number {number} of a text that is made for measuring the time" for number in numbers
            ]
            writer.append(NewRows(texts, [""] * len(texts), numbers, numbers, vectors))
    stored = np.memmap(folder / "vectors.bin", dtype=np.float32, mode="r").reshape(-1, DIMENSION)
    made = Structure.build("ivf", stored, LISTS, 0, lambda amount=1: None)
    written = made.write(folder / "ivf-1.faiss")
    manifest = Manifest(
        format=FORMAT,
        count=rows,
        dimension=DIMENSION,
        text_bytes=writer.extent.text_bytes,
        asked_kind="ivf",
        kind="ivf",
        asked_recall=0.5,
        seed=0,
        generation=1,
        model=ModelFacts(name="", options={}, fingerprint="", precision="float32"),
        sources=(SourceFacts(source="random", first_row=0, rows=rows, fingerprint="", reading={}),),
        structure=StructureFacts(
            file="ivf-1.faiss",
            size=written.size,
            sum=written.sum,
            groups=LISTS,
            effort=PROBES,
            trained_rows=rows,
            recall=0,
            sample=0,
        ),
        libraries={},
        documents=rows,
    )
    write_sealed_json(folder / "manifest.json", manifest.model_dump())


def choose(folder: Path, sum: str, *, checked: bool) -> None:
    facts = json.loads((folder / "manifest.json").read_text())
    del facts["checksum"]
    facts["format"] = FORMAT if checked else 2
    facts["structure"]["sum"] = sum if checked else None
    write_sealed_json(folder / "manifest.json", facts)


def drop(folder: Path) -> None:
    for path in folder.iterdir():
        descriptor = os.open(path, os.O_RDONLY)
        os.fsync(descriptor)
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(descriptor)


def measure(folder: Path, queries: np.ndarray, exact: bool) -> list[float]:
    """Milliseconds: opening, the first query, later ones (their median)."""
    times = [time.perf_counter()]
    index = SearchIndex.open(folder)
    times.append(time.perf_counter())
    for query in queries:
        index.search(query[None], 10, exact=exact)
        times.append(time.perf_counter())
    spent = np.diff(times) * 1000
    return [float(spent[0]), float(spent[1]), float(np.median(spent[2:]))]


def main() -> None:
    rows = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    load_faiss().omp_set_num_threads(1)
    queries = np.random.default_rng(1).standard_normal((QUERIES, DIMENSION), dtype=np.float32)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        make(folder, rows)
        sum = json.loads((folder / "manifest.json").read_text())["structure"]["sum"]
        print(
            f"{rows:,} rows of {DIMENSION} numbers; milliseconds, the best of {TIMES}: opening, first query, later ones"
        )
        for exact in (True, False):
            for cold in (True, False):
                found: dict[bool, list[list[float]]] = {False: [], True: []}
                for _ in range(TIMES):
                    for checked in (False, True):
                        choose(folder, sum, checked=checked)
                        if cold:
                            drop(folder)
                        found[checked].append(measure(folder, queries, exact))
                for checked, label in ((False, "without"), (True, "with   ")):
                    figures = "  ".join(f"{min(one):8.2f}" for one in zip(*found[checked], strict=True))
                    how = f"{'exact' if exact else 'ivf  '} {'cold' if cold else 'warm'}"
                    print(f"{how} {label} checksums  {figures}")


if __name__ == "__main__":
    main()
