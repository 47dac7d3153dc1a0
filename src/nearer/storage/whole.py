"""Files and folders that are never seen half-written: whole under their name, or not at all, also when the power goes.

What is written is synced before it gets its name, and the folder that holds the name is synced after that. A file
system may else keep the new name and lose the content, which leaves an empty file where a good one was.

One process writes at a time (`written_by_us_alone`): the system frees its lock when it ends, however it ends.
"""

from __future__ import annotations

import ctypes
import os
import platform
import re
import shutil
import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from nearer.errors import InputError, ModelError, first_line
from nearer.storage.checksums import write_checksums

EXCHANGE, HERE = 2, -100  # RENAME_EXCHANGE and AT_FDCWD of Linux


def write_whole(path: Path, text: str | Iterable[str], *, errors: str = "strict") -> None:
    """A text, or its parts one after the other, where they should not be in memory together.

    errors: what becomes of half a surrogate pair, as Python's `open` has it.
    """
    with whole_file(path) as partial, open(partial, "w", encoding="utf-8", newline="\n", errors=errors) as file:
        file.writelines([text] if isinstance(text, str) else text)


@contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """Where to write what becomes `path` if nothing goes wrong, and is gone otherwise.

    An OSError is raised as it comes: what it should say is the caller's to know.
    """
    if path.exists() and not path.is_file():  # a terminal or a pipe, which nothing can replace
        yield path
        return
    path = path.resolve() if path.is_symlink() else path
    partial = partial_of(path)
    try:
        yield partial
        sync_file(partial)
        partial.replace(path)
        sync_folder(path.parent)
    except BaseException:
        with suppress(OSError):
            partial.unlink(missing_ok=True)
        raise


def partial_of(path: Path) -> Path:
    """Beside it, since only within one file system a file is moved at once."""
    return path.with_name(f".{path.name}.partial")


def check_free(out: Path, *, overwrite: bool = False) -> None:
    """That a model can go there: worth knowing before one is loaded for it."""
    if out.exists() and (not out.is_dir() or (any(out.iterdir()) and not overwrite)):
        raise ModelError(f"{out}: is there already; name another folder.", argument="out")


@contextmanager
def whole_folder(out: Path, *, overwrite: bool = False, checked: bool = True) -> Iterator[Path]:
    """An empty folder beside `out`, which gets its name if nothing goes wrong and is gone otherwise.

    overwrite: what is there is replaced, in one move where the system has one. checked: with checksums of its files.
    """
    try:
        check_free(out, overwrite=overwrite)
        make_folder(out.parent)
        built = unfinished_folder(out)
        try:
            built.mkdir()
            yield built
            if checked:
                write_checksums(built)
            put_in_place(built, out)
        finally:
            shutil.rmtree(built, ignore_errors=True)  # what was replaced, or what is not whole
    except OSError as error:
        raise ModelError(f"{out}: cannot be written ({error.strerror or first_line(error)}).") from error
    except Exception as error:
        if type(error).__name__ != "SafetensorError":  # by its name: the library need not be loaded to write a file
            raise
        # it hands on what the system said as a text with the number in it
        code = re.search(r"code: (\d+)", str(error))
        reason = os.strerror(int(code[1])) if code else first_line(error)
        raise ModelError(f"{out}: cannot be written ({reason}).") from error


def unfinished_folder(out: Path) -> Path:
    """A new name beside it; `clear_unfinished` knows it again."""
    path = out.resolve()  # "." has no name beside which anything could stand
    return path.with_name(f".{path.name}-{uuid.uuid4().hex[:8]}.unfinished")


def clear_unfinished(folder: Path, name: str = "*") -> None:
    """Remove what killed processes left in a folder, of this name alone, which nobody else writes now."""
    for path in folder.glob(f".{name}-*.unfinished"):
        shutil.rmtree(path, ignore_errors=True)
    for path in folder.glob(f".{name}.partial"):
        if path.is_file():
            path.unlink(missing_ok=True)


def put_in_place(built: Path, out: Path) -> None:
    """Move a finished folder to its name, when all of it is on the disk; what was there lies where it was built."""
    out = out.resolve()
    sync_tree(built)
    if out.exists() and not _exchanged(built, out):
        aside = unfinished_folder(out)
        out.rename(aside)
        built.rename(out)
        sync_folder(out.parent)
        shutil.rmtree(aside, ignore_errors=True)
        return
    if not out.exists():
        built.rename(out)
    sync_folder(out.parent)


def _exchanged(first: Path, second: Path) -> bool:
    """Linux can swap two names at once, on most file systems: there is no moment at which either is missing."""
    try:
        rename = ctypes.CDLL(None, use_errno=True).renameat2
    except (OSError, AttributeError, TypeError):  # another system, or an older C library
        return False
    return int(rename(HERE, os.fsencode(first), HERE, os.fsencode(second), EXCHANGE)) == 0


def make_folder(folder: Path) -> None:
    """With the folders above it that are missing, each of which lasts."""
    missing = [folder, *folder.parents]
    while missing and missing[-1].exists():
        missing.pop()
    folder.mkdir(parents=True, exist_ok=True)
    for made in missing:
        sync_folder(made.parent)


def sync_file(path: Path) -> None:
    with open(path, "r+b") as file:
        os.fsync(file.fileno())


def sync_folder(folder: Path) -> None:
    """Makes the names inside it last: new ones, changed ones, removed ones."""
    if os.name == "nt":  # which has no such thing, and needs none
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_tree(folder: Path) -> None:
    """All files and folders in it, those deepest down first."""
    for inside, _, names in os.walk(folder, topdown=False):
        for name in names:
            sync_file(Path(inside) / name)
        sync_folder(Path(inside))


@contextmanager
def written_by_us_alone(lock: Path, path: Path, *, remove: bool = False) -> Iterator[None]:
    """Hold `lock`, a file, while `path` is written; another holder is an error that names it.

    remove: the lock stands beside a file rather than in a folder of ours, and goes when it is done.
    """
    from filelock import FileLock, Timeout  # not at once: `nearer doctor` starts without packages

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
