"""Where an index may stand, and how a finished one gets there."""

from __future__ import annotations

import os
import shutil
import uuid
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


def put_in_place(folder: Path, out: Path) -> None:
    out = out.resolve()
    replaced = out.with_name(f".{out.name}.replaced-{uuid.uuid4().hex[:8]}")
    if out.exists():
        out.rename(replaced)
    folder.rename(out)
    sync_folder(out.parent)
    if replaced.exists():
        shutil.rmtree(replaced)


def sync_folder(folder: Path) -> None:
    """Makes renamings inside it last."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
