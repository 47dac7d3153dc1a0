"""BM25 as a part of an index: made over the rows that are there, anew with every change of them.

What a word is worth depends on all texts, so a sum of old and new parts would not be what a fresh build gives.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from nearer.errors import DamagedError
from nearer.search.lexical import LexicalIndex
from nearer.search.manifest import LexicalPart, Manifest
from nearer.search.row_store import StoredRows
from nearer.storage.whole import clear_unfinished

FOLDERS = "lexical-*"


def write_words(
    folder: Path, generation: int, stored: StoredRows, removed: NDArray[np.int64], *, progress: bool = False
) -> LexicalPart:
    """Over all rows but the removed ones. It counts when the manifest names it."""
    rows = np.setdiff1d(np.arange(stored.extent.rows), removed)
    name = f"lexical-{generation}"
    clear_unfinished(folder, FOLDERS)
    made = LexicalIndex.build((stored.texts[row] for row in rows.tolist()), progress=progress)
    made.save(folder / name, overwrite=True)
    return LexicalPart(folder=name, rows=len(rows))


def open_words(folder: Path, manifest: Manifest) -> LexicalIndex | None:
    """None where the index has none."""
    part, back = manifest.lexical, manifest.way_back
    if part is None:
        return None
    path = folder / part.folder
    if not path.is_dir():
        raise DamagedError(f"{path}: is missing; {back}.")
    lexical = LexicalIndex.load(path, back=back)
    if len(lexical) != part.rows:
        raise DamagedError(f"{path}: is over {len(lexical):,} texts, the manifest says {part.rows:,}; {back}.")
    return lexical


def forget_older_words(folder: Path, kept: LexicalPart | None) -> None:
    for left_over in folder.glob(FOLDERS):
        if kept is None or left_over.name != kept.folder:
            shutil.rmtree(left_over, ignore_errors=True)
