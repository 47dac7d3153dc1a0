"""Which versions made a model or a score."""

from __future__ import annotations

from functools import cache
from importlib.metadata import PackageNotFoundError, version

VERSION = "0.1.0"


def library_versions() -> dict[str, str]:
    found = {"pytorch": _installed("torch"), "transformers": _installed("transformers")}
    return {"nearer": VERSION, **{name: number for name, number in found.items() if number is not None}}


@cache  # a file of metadata is read each time, and a run notes versions with everything that it writes
def _installed(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
