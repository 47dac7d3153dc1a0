"""A folder that is there whole or not at all."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from nearer.errors import ModelError, first_line


def check_free(out: Path) -> None:
    """Before a model is loaded for it."""
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise ModelError(f"{out}: is there already; name another folder.", argument="out")


@contextmanager
def whole_folder(out: Path) -> Iterator[Path]:
    """An empty folder beside `out`, which takes its place if nothing goes wrong and is gone otherwise."""
    try:
        check_free(out)
        out.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=out.parent, prefix=f".{out.name}-") as temporary:
            built = Path(temporary) / "built"
            built.mkdir()
            yield built
            if out.exists():
                out.rmdir()  # an empty one
            built.rename(out)
    except OSError as error:
        raise ModelError(f"{out}: cannot be written ({error.strerror or first_line(error)}).") from error
