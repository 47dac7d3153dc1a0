"""Optional packages: imported where they are used, with an error that names the extra to install."""

from __future__ import annotations

import importlib
from types import ModuleType

from nearer.errors import MissingExtraError


def require(module: str, extra: str, purpose: str) -> ModuleType:
    """Import an optional package, or say which extra brings it."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise MissingExtraError(
            f"{purpose} needs the package {module.partition('.')[0]!r}: pip install 'nearer[{extra}]'."
        ) from error
