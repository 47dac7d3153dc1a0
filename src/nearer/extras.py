"""Optional packages: imported where they are used, with an error that says how to install them.

nearer is on no package index, so `pip install nearer` finds nothing: it is installed from a checkout or from a wheel.

Other installed packages may add methods and kinds of tasks; these are found by entry points.
"""

from __future__ import annotations

import importlib
from importlib.metadata import EntryPoint
from pathlib import Path
from types import ModuleType
from typing import Any

from nearer.errors import MissingExtraError, SettingError, first_line
from nearer.versions import VERSION


def require(module: str, extra: str, purpose: str) -> ModuleType:
    """Import an optional package, or say which extra brings it."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise MissingExtraError(
            f"{purpose} needs the package {module.partition('.')[0]!r}: {install_command(extra)}"
        ) from error


def install_command(extra: str) -> str:
    """The command that adds an extra to this installation, from any folder."""
    folder = checkout()
    return f"pip install '{_wheel()}[{extra}]'" if folder is None else f"pip install -e '{folder}[{extra}]'"


def reinstall_command() -> str:
    """The command that installs the package again and leaves all others alone."""
    folder = checkout()
    source = _wheel() if folder is None else f"-e '{folder}'"
    return f"pip install --force-reinstall --no-deps {source}"


def checkout() -> Path | None:
    """The checkout that this code runs from; None: it was installed from a wheel."""
    folder = Path(__file__).resolve().parents[2]
    return folder if (folder / "pyproject.toml").exists() and (folder / "src" / "nearer").is_dir() else None


def _wheel() -> str:
    return f"nearer-{VERSION}-py3-none-any.whl"


def load_plugin(entry: EntryPoint, what: str) -> Any:
    """The object that an entry point names. what: it should be, for the message if it cannot be loaded."""
    try:
        return entry.load()
    except Exception as error:  # whatever another package raises
        raise SettingError(
            f"{what} {entry.name!r} of an installed package ({entry.value}) cannot be loaded ({first_line(error)}); "
            "mend or remove the package."
        ) from error
