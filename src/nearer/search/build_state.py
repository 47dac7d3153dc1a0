"""What is under way in an index' folder: from what it is made and how far it is, so that it can go on.

And what is finished: the same text is not added twice by somebody who does not know that it is there.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

import numpy as np

from nearer.errors import InputError, tell
from nearer.search.documents import check_documents
from nearer.search.manifest import Facts, Manifest, ModelFacts
from nearer.search.removal import open_removed
from nearer.search.row_store import Extent, StoredRows
from nearer.storage.sealed import read_sealed_json
from nearer.storage.whole import sync_folder
from nearer.text.reading import Reading

PENDING, LOCK = "pending.json", "lock"


class Pending(Facts):
    """Something under way: from what it is made, and how far the files are good."""

    generation: int
    base_rows: int
    source: str
    source_fingerprint: str | None
    model: str
    precision: str
    prompt: str | None
    passages: tuple[int, int] | None = None
    base_documents: int = 0
    rows: int
    text_bytes: int
    id_bytes: int = 0
    documents: int = 0

    @classmethod
    def new(
        cls,
        source: str,
        fingerprint: str | None,
        facts: ModelFacts,
        base: Extent,
        generation: int,
        passages: tuple[int, int] | None,
    ) -> Self:
        return cls(
            generation=generation,
            base_rows=base.rows,
            source=source,
            source_fingerprint=fingerprint,
            model=facts.fingerprint,
            precision=facts.precision,
            prompt=facts.prompt,
            passages=passages,
            base_documents=base.documents,
            **base._asdict(),
        )

    @property
    def extent(self) -> Extent:
        return Extent(self.rows, self.text_bytes, self.id_bytes, self.documents)

    @property
    def kept(self) -> int:
        """Sentences that need not be encoded again; none of standard input, which is read once only."""
        return self.rows - self.base_rows if self.source_fingerprint else 0

    @property
    def made_from(self) -> tuple[object, ...]:
        return self.source_fingerprint, self.model, self.precision, self.prompt, self.passages


@contextmanager
def explain_interruption(folder: Path) -> Iterator[None]:
    """An interruption that says what is kept."""
    try:
        yield
    except KeyboardInterrupt:
        pending = read_pending(folder)
        kept = pending.kept if pending is not None else 0
        going_on = f"{kept:,} sentences are encoded; the same command goes on there" if kept else "nothing was changed"
        raise KeyboardInterrupt(f"stopped; {going_on}") from None


def source_fingerprint(reading: Reading[Any]) -> str | None:
    """What the text is; None where it can be read once only. A text that is not there is an error now."""
    check_documents(reading)
    return None if reading.source == "-" else reading.fingerprint()


def resume_or_begin(folder: Path, new: Pending, dimension: int, *, fresh: bool) -> Pending:
    """What was begun of the same is gone on with; what was begun of something else is refused, unless `fresh`."""
    old = read_pending(folder)
    if old is not None and (old.generation, old.base_rows) == (new.generation, new.base_rows):
        kept = old.kept
        if old.made_from == new.made_from and kept and _is_there(folder, old, dimension):
            return old
        if old.made_from != new.made_from and kept and not fresh:
            raise InputError(
                f"{folder}: holds {kept:,} sentences of an unfinished one, from other text ({old.source}) or by "
                "another model; give the same to go on with it, or ask to begin anew.",
                argument="overwrite" if new.generation == 1 else "force",
            )
    forget_pending(folder)  # first of all: it must not speak of rows that are about to be others
    return new


def forget_pending(folder: Path) -> None:
    """What was begun does not count any more, also when the power goes."""
    if (folder / PENDING).exists():
        (folder / PENDING).unlink()
        sync_folder(folder)


def check_not_repeated(folder: Path, manifest: Manifest, source: str, fingerprint: str | None) -> None:
    """That the text is not in the index already: then an addition that was thought lost is given once more.

    A text of which something was removed since may come again. Documents with ids replace themselves.
    """
    for earlier in manifest.sources:
        if fingerprint is None or earlier.fingerprint != fingerprint:
            continue
        end = earlier.first_row + earlier.rows
        removed = open_removed(folder, manifest)
        if ((removed >= earlier.first_row) & (removed < end)).any():
            continue
        stored = StoredRows(folder, manifest.extent, manifest.dimension, manifest.way_back, format=manifest.format)
        if stored.ids is not None:
            ends = np.append(0, stored.ids.ends)
            if (np.diff(ends[earlier.first_row : end + 1]) > 0).all():
                tell(f"{source}: is in {folder} already; its documents replace themselves.")
                continue
        if (left := read_pending(folder)) is not None and left.generation <= manifest.generation:
            forget_pending(folder)  # killed when the manifest was written: it is finished
        rows = f"rows {earlier.first_row:,} to {end - 1:,}"
        raise InputError(
            f"{source}: is in {folder} already, all of it ({rows}); nothing was added. To have it twice, ask for it.",
            argument="again",
        )


def read_pending(folder: Path) -> Pending | None:
    """None where nothing is under way, or nobody can tell what."""
    try:
        return Pending.model_validate(read_sealed_json(folder / PENDING, "begin anew"))
    except (FileNotFoundError, ValueError, RecursionError):  # damaged, of another version, or no JSON at all
        return None


def _is_there(folder: Path, pending: Pending, dimension: int) -> bool:
    """Whether all that it speaks of is on the disk as it was written."""
    try:
        StoredRows(folder, pending.extent, dimension).check_from(pending.base_rows)
    except InputError:
        return False
    return True
