"""Rows that are there no more: removed by their ids, or replaced by a document with the same id.

The files of an index are only appended to, so such rows are listed in a file of their own, which counts when the
manifest names it.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from nearer.errors import DamagedError, InputError
from nearer.search.manifest import MANIFEST, Manifest, RemovedFacts
from nearer.search.row_store import StoredRows
from nearer.search.text_store import map_array
from nearer.search.words_part import forget_older_words, write_words
from nearer.storage.checksums import FileSum, differs, file_sum
from nearer.storage.sealed import write_sealed_json
from nearer.storage.whole import whole_file

Rows = NDArray[np.int64]
REMOVED = "removed-*.bin"
SHOWN = 5


def open_removed(folder: Path, manifest: Manifest) -> Rows:
    """Sorted."""
    if manifest.removed is None:
        return np.empty(0, dtype=np.int64)
    facts, path = manifest.removed, folder / manifest.removed.file
    rows: Rows = map_array(path, np.dtype(np.int64), (facts.rows,), manifest.way_back)
    if facts.sum is not None and (fault := differs(path, FileSum(rows.nbytes, facts.sum))):
        raise DamagedError(f"{path}: {fault}; {manifest.way_back}.")
    if len(rows) and not (rows[0] >= 0 and rows[-1] < manifest.count and (np.diff(rows) > 0).all()):
        raise DamagedError(f"{path}: is damaged; {manifest.way_back}.")
    return rows


def write_removed(folder: Path, generation: int, rows: Rows) -> RemovedFacts | None:
    if not len(rows):
        return None
    name = f"removed-{generation}.bin"
    with whole_file(folder / name) as partial:
        partial.write_bytes(np.sort(rows).astype(np.int64).tobytes())
    return RemovedFacts(file=name, rows=len(rows), sum=file_sum(folder / name).sum)


def forget_older(folder: Path, kept: RemovedFacts | None) -> None:
    for left_over in folder.glob(REMOVED):
        if kept is None or left_over.name != kept.file:
            left_over.unlink()


def find_replaced_rows(stored: StoredRows, first_new: int, removed: Rows) -> tuple[Rows, int]:
    """Rows whose id a later document has, which begins at row `first_new` or behind; and of how many documents."""
    count, ids, documents = stored.extent.rows, stored.ids, stored.documents
    if not stored.extent.id_bytes or ids is None or documents is None:
        return np.empty(0, dtype=np.int64), 0
    latest = {ids[row]: int(documents[row]) for row in range(first_new, count)}
    latest.pop("", None)
    gone = set(removed.tolist())
    rows = [
        row
        for row in range(count)
        if row not in gone and (last := latest.get(ids[row])) is not None and last != documents[row]
    ]
    found = np.array(rows, dtype=np.int64)
    return found, len(np.unique(documents[found]))


def remove_ids(folder: Path, manifest: Manifest, ids: Sequence[str]) -> int:
    """How many documents were removed; an id that is not there is an error, and then nothing is removed."""
    opened = StoredRows(folder, manifest.extent, manifest.dimension, manifest.way_back, format=manifest.format)
    stored, documents = opened.ids, opened.documents
    if stored is None or documents is None or not manifest.id_bytes:
        raise InputError(f"{folder}: its documents have no ids; build it anew from records that have one (id_column).")
    already = open_removed(folder, manifest)
    gone = set(already.tolist())
    wanted = set(ids)
    rows = [row for row in range(manifest.count) if row not in gone and stored[row] in wanted]
    unknown = sorted(wanted - {stored[row] for row in rows})
    if unknown:
        more = f" and {len(unknown) - SHOWN} more" if len(unknown) > SHOWN else ""
        raise InputError(
            f"{folder}: has no document {', '.join(map(repr, unknown[:SHOWN]))}{more}; nothing was removed.",
            argument="ids",
        )
    if len(rows) + len(gone) == manifest.count:
        raise InputError(f"{folder}: nothing would be left of it; delete the folder instead.")
    removed = np.concatenate([already, np.array(rows, dtype=np.int64)])
    try:
        facts = write_removed(folder, manifest.generation + 1, removed)
        lexical = manifest.lexical
        if lexical is not None:
            lexical = write_words(folder, manifest.generation + 1, opened, removed)
        changes = {"removed": facts, "generation": manifest.generation + 1, "lexical": lexical}
        write_sealed_json(folder / MANIFEST, manifest.model_copy(update=changes).model_dump())
        forget_older(folder, facts)
        forget_older_words(folder, lexical)
    except OSError as error:
        raise InputError(f"{folder}: the index cannot be written ({error.strerror or error}).") from None
    return len(np.unique(documents[rows]))
