"""One writer at a time: a lock that the system frees when its holder ends, however it ends."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from filelock import FileLock, Timeout

from nearer.errors import InputError


@contextmanager
def written_by_us_alone(lock: Path, path: Path, *, remove: bool = False) -> Iterator[None]:
    """Hold `lock`, a file, while `path` is written; another holder is an error that names it.

    remove: the lock stands beside a file rather than in a folder of ours, and goes when it is done.
    """
    held = FileLock(lock)
    try:
        held.acquire(timeout=0)
    except Timeout:
        raise InputError(
            f"{path}: another process is writing it{_holder(lock)}; wait until that is done, or name another path."
        ) from None
    except OSError as error:
        raise InputError(f"{path}: cannot be written ({error.strerror or error}).") from None
    try:
        with suppress(OSError):  # it is said for people alone
            lock.write_text(f"{os.getpid()} on {platform.node()}\n", encoding="utf-8")
        yield
    finally:
        if remove:
            lock.unlink(missing_ok=True)
        held.release()


def _holder(lock: Path) -> str:
    try:
        said = lock.read_text(encoding="utf-8").strip()
    except (OSError, ValueError):
        return ""
    return f" (process {said})" if said else ""
