"""What is under way in an index' folder: from what it is made and how far it is, so that it can go on."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

from filelock import FileLock, Timeout
from pydantic import ValidationError

from nearer.errors import InputError
from nearer.search.documents import check_documents
from nearer.search.manifest import Facts, ModelFacts
from nearer.search.rows import Extent, file_sizes
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
def written_by_us_alone(folder: Path) -> Iterator[None]:
    """The system frees the lock if its holder dies."""
    lock = FileLock(folder / LOCK)
    try:
        lock.acquire(timeout=0)
    except Timeout:
        raise InputError(f"{folder}: another process is writing it; wait until that is done.") from None
    except OSError as error:
        raise InputError(f"{folder}: the index cannot be written ({error.strerror or error}).") from None
    try:
        yield
    finally:
        lock.release()


@contextmanager
def told_how_to_go_on(folder: Path) -> Iterator[None]:
    """An interruption that says what is kept."""
    try:
        yield
    except KeyboardInterrupt:
        pending = _read_pending(folder)
        kept = pending.kept if pending is not None else 0
        going_on = f"{kept:,} sentences are encoded; the same command goes on there" if kept else "nothing was changed"
        raise KeyboardInterrupt(f"stopped; {going_on}") from None


def source_fingerprint(reading: Reading[Any]) -> str | None:
    """What the text is; None where it can be read once only. A text that is not there is an error now."""
    check_documents(reading)
    return None if reading.source == "-" else reading.fingerprint()


def begun(folder: Path, new: Pending, dimension: int, *, fresh: bool) -> Pending:
    """What was begun of the same is gone on with; what was begun of something else is refused, unless `fresh`."""
    old = _read_pending(folder)
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
    # first of all: it must not speak of rows that are about to be others
    (folder / PENDING).unlink(missing_ok=True)
    return new


def _read_pending(folder: Path) -> Pending | None:
    try:
        return Pending.model_validate_json((folder / PENDING).read_text(encoding="utf-8"))
    except (FileNotFoundError, UnicodeDecodeError, ValidationError):
        return None


def _is_there(folder: Path, pending: Pending, dimension: int) -> bool:
    sizes = file_sizes(pending.extent, dimension)
    return all((folder / name).is_file() and (folder / name).stat().st_size >= size for name, size in sizes.items())
