"""Where things that can be made again are kept: `$NEARER_CACHE`, else `~/.cache/nearer`."""

from __future__ import annotations

import os
from pathlib import Path

from nearer.errors import SettingError

CACHE_VARIABLE = "NEARER_CACHE"


def cache_folder(kind: str) -> Path:
    """The folder for one kind of cached thing, made if need be."""
    named = os.environ.get(CACHE_VARIABLE)
    home = os.environ.get("XDG_CACHE_HOME")
    root = Path(named) if named else (Path(home) if home else Path.home() / ".cache") / "nearer"
    folder = root / kind
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise SettingError(
            f"{folder}: cannot be made ({error.strerror}); name another folder with {CACHE_VARIABLE}."
        ) from None
    return folder
