"""What other installed packages add to nearer: methods and kinds of tasks, found by entry points."""

from __future__ import annotations

from importlib.metadata import EntryPoint
from typing import Any

from nearer.errors import SettingError, first_line


def load_plugin(entry: EntryPoint, what: str) -> Any:
    """The object that an entry point names. what: it should be, for the message if it cannot be loaded."""
    try:
        return entry.load()
    except Exception as error:  # whatever another package raises
        raise SettingError(
            f"{what} {entry.name!r} of an installed package ({entry.value}) cannot be loaded ({first_line(error)}); "
            "mend or remove the package."
        ) from error
