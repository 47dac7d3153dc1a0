"""All that is wrong with an index, file by file: for who wants to know before somebody searches it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from nearer.errors import InputError
from nearer.search.build_state import PENDING, read_pending
from nearer.search.manifest import Manifest, read_manifest
from nearer.search.nearest_neighbours import Structure
from nearer.search.removal import open_removed
from nearer.search.row_store import StoredRows, file_sizes, open_pieces
from nearer.search.text_store import map_array
from nearer.search.words_part import open_words


def find_damage(folder: Path) -> list[str]:
    """A line for each thing that is wrong; none if the index is as it was written.

    An index of format 1 or 2 has no checksums: of its files the sizes are known, and that their content fits together.
    """
    lines: list[str] = []

    def attempt(look: Any, *given: Any, **options: Any) -> Any:
        try:
            return look(*given, **options)
        except InputError as error:
            lines.append(str(error))
            return None

    manifest: Manifest | None = attempt(read_manifest, folder)
    if manifest is None:
        return lines
    back = manifest.way_back
    if manifest.format > 2:
        pieces = attempt(open_pieces, folder, manifest.count, back)
        for name, size in file_sizes(manifest.extent, manifest.dimension).items():
            content = attempt(map_array, folder / name, np.dtype(np.uint8), (size,), back)
            if pieces is not None and content is not None:
                lines += pieces.damage({name: content})
    if not lines:
        stored = attempt(StoredRows, folder, manifest.extent, manifest.dimension, back, format=manifest.format)
        if stored is not None:
            attempt(list, stored.texts)
    attempt(open_removed, folder, manifest)
    attempt(Structure.open, folder, manifest, change=False)
    attempt(open_words, folder, manifest)
    if (folder / PENDING).exists() and read_pending(folder) is None:
        lines.append(f"{folder / PENDING}: is damaged; the addition that was interrupted will begin anew.")
    return lines
