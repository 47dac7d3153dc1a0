"""Where an index may stand."""

from __future__ import annotations

from pathlib import Path

from nearer.errors import InputError

MANIFEST = "manifest.json"


def check_output(out: Path, *, overwrite: bool) -> None:
    """That an index can go there: worth knowing before a model is loaded."""
    if not out.exists():
        return
    if not out.is_dir():
        raise InputError(f"{out}: is a file; an index is a folder, name another.")
    if not any(out.iterdir()):
        return
    if not (out / MANIFEST).exists():
        raise InputError(f"{out}: holds other files; name a new folder.")
    if not overwrite:
        raise InputError(
            f"{out}: is there already; add to it (nearer search add), name another folder, or ask for overwriting.",
            argument="overwrite",
        )


def partial_folder(folder: Path) -> Path:
    """Where a build stands until it is whole."""
    place = folder.resolve()  # "." has no name beside which anything could stand
    return place.with_name(place.name + ".partial")
