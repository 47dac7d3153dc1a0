"""What may leave the machine: names of files, without the folders that they lie in."""

from __future__ import annotations

from pathlib import Path
from typing import Any


def without_folders(value: Any) -> Any:
    """The same facts, with paths of this machine cut down to their last part. Names on the hub stay as they are."""
    if isinstance(value, dict):
        return {name: without_folders(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [without_folders(part) for part in value]
    return Path(value).name if isinstance(value, str) and is_local(value) else value


def is_local(name: str) -> bool:
    """Whether this is a path of this machine, not a name that means something elsewhere."""
    if "\n" in name or name.startswith("hf:"):
        return False
    if name.startswith(("/", "~", "./", "../")) or name in (".", ".."):
        return True
    return name.count("/") > 0 and Path(name).exists()
