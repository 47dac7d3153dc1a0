"""Files that are never seen half-written: whole under their name, or not at all, also when the power goes."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


def write_whole(path: Path, text: str | Iterable[str]) -> None:
    """A text, or its parts one after the other, where they should not be in memory together."""
    with whole_file(path) as partial, open(partial, "w", encoding="utf-8", newline="\n") as file:
        file.writelines([text] if isinstance(text, str) else text)


@contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """Where to write what becomes `path` if nothing goes wrong, and is gone otherwise.

    An OSError is raised as it comes: what it should say is the caller's to know.
    """
    partial = partial_of(path)
    try:
        yield partial
        with open(partial, "r+b") as file:
            os.fsync(file.fileno())
        partial.replace(path)
    except BaseException:
        with suppress(OSError):
            partial.unlink(missing_ok=True)
        raise


def partial_of(path: Path) -> Path:
    """Beside it, since only within one file system a file is moved at once."""
    return path.with_name(f".{path.name}.partial")
