"""A disk that loses what was not synced, that is full or broken at the n-th call, or that flips a bit.

with RecordedDisk(folder) as disk:
    write()                                        # whatever should survive
for moment in range(len(disk.moments)):
    disk.after_power_cut(moment, "names", elsewhere)  # the folder as it may be found when the power is back

Every call that makes something last (a sync) or changes a name is a moment at which the power can go. What is left then
depends on the file system, so there are three kinds of cut:

    synced   what was synced, names and contents alike, and nothing else
    names    all names as they were at that moment; contents as they were last synced (empty if they never were)
    zeros    the same, but files have the length they had, with zeros for what was not synced
"""

from __future__ import annotations

import builtins
import errno
import io
import os
import resource
import shutil
import stat
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Literal, NamedTuple, Self, TypeVar
from unittest.mock import patch

from nearer.errors import NearerError
from nearer.storage.checksums import CHECKSUMS

Result = TypeVar("Result")
Cut = Literal["synced", "names", "zeros"]
CUTS: tuple[Cut, ...] = ("synced", "names", "zeros")
CHANGES = ("fsync", "replace", "rename", "unlink", "remove", "rmdir", "mkdir")


class Moment(NamedTuple):
    """What lasts by then (contents and names by inode), and the tree as it was."""

    contents: dict[int, bytes]
    names: dict[int, dict[str, int]]
    tree: dict[int, dict[str, int]]
    sizes: dict[int, int]
    call: str


class RecordedDisk:
    def __init__(self, root: Path) -> None:
        self.root = root.resolve()
        self.moments: list[Moment] = []
        self._contents: dict[int, bytes] = {}
        self._names: dict[int, dict[str, int]] = {}
        self._held: dict[int, int] = {}  # open, so that no inode number is given out twice
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        self.root.mkdir(parents=True, exist_ok=True)
        for place, folders, files in os.walk(self.root):  # what is there at the beginning lasts
            for path in map(Path(place).joinpath, files):
                self._contents[self._hold(path)] = path.read_bytes()
            self._names[self._hold(Path(place))] = {
                name: os.lstat(Path(place, name)).st_ino for name in (*folders, *files)
            }
        for name in CHANGES:
            self._stack.enter_context(patch.object(os, name, self._noted(name, getattr(os, name))))
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()
        self._note("end")
        for descriptor in self._held.values():
            os.close(descriptor)
        self._held.clear()

    def after_power_cut(self, moment: int, cut: Cut, into: Path) -> None:
        """Write what is found then to `into`."""
        then = self.moments[moment]
        shutil.rmtree(into, ignore_errors=True)
        self._restore(then, cut, self.root.stat().st_ino, into)

    def _restore(self, then: Moment, cut: Cut, folder: int, into: Path) -> None:
        into.mkdir(parents=True)
        names = then.names if cut == "synced" else then.tree
        for name, inode in names.get(folder, {}).items():
            if inode in then.tree or inode in then.names:
                self._restore(then, cut, inode, into / name)
                continue
            content = then.contents.get(inode, b"")
            if cut == "zeros":
                content = content[: then.sizes[inode]].ljust(then.sizes[inode], b"\0")
            (into / name).write_bytes(content)

    def _noted(self, name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def noted(*arguments: Any, **options: Any) -> Any:
            self._note(name)
            result = call(*arguments, **options)
            if name == "fsync":
                self._last(arguments[0])
            return result

        return noted

    def _note(self, call: str) -> None:
        tree: dict[int, dict[str, int]] = {}
        sizes: dict[int, int] = {}
        for place, folders, files in os.walk(self.root):
            inside = {}
            for name in (*folders, *files):
                path = Path(place, name)
                try:
                    inside[name] = self._hold(path)
                    sizes[inside[name]] = path.stat().st_size
                except OSError:  # gone since it was listed
                    inside.pop(name, None)
            tree[Path(place).stat().st_ino] = inside
        self.moments.append(Moment(dict(self._contents), dict(self._names), tree, sizes, call))

    def _last(self, descriptor: int) -> None:
        """What is synced now."""
        facts = os.fstat(descriptor)
        path = Path(f"/proc/self/fd/{descriptor}").readlink()
        if not path.is_relative_to(self.root):
            return
        self._hold(path)
        if stat.S_ISDIR(facts.st_mode):
            self._names[facts.st_ino] = {inside.name: inside.lstat().st_ino for inside in path.iterdir()}
        else:
            with open(f"/proc/self/fd/{descriptor}", "rb") as file:
                self._contents[facts.st_ino] = file.read()

    def _hold(self, path: Path) -> int:
        inode = path.stat().st_ino
        if inode not in self._held:
            self._held[inode] = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
        return inode


@contextmanager
def failing(root: Path, at: int, error: int = errno.ENOSPC) -> Iterator[list[str]]:
    """The call number `at` (from 0) of those that write below `root` fails. Gives the calls so far, by name.

    A disk that is full says so when a file is opened, synced or renamed; when bytes are handed over, see `small_files`.
    """
    root = root.resolve()
    calls: list[str] = []

    def fails(name: str, path: object) -> None:
        if isinstance(path, int):
            path = Path(f"/proc/self/fd/{path}").readlink()
        if not isinstance(path, (str, os.PathLike)) or not Path(path).absolute().is_relative_to(root):
            return
        calls.append(f"{name} {Path(path).name}")
        if len(calls) == at + 1:
            raise OSError(error, os.strerror(error), str(path))

    def guarded(name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def guard(*arguments: Any, **options: Any) -> Any:
            fails(name, arguments[0])
            return call(*arguments, **options)

        return guard

    def opened(*arguments: Any, **options: Any) -> Any:
        mode = arguments[1] if len(arguments) > 1 else options.get("mode", "r")
        if set(mode) & set("wax+"):
            fails("open", arguments[0])
        return real_open(*arguments, **options)

    real_open = builtins.open
    with ExitStack() as stack:
        for name in ("fsync", "replace", "rename", "mkdir"):
            stack.enter_context(patch.object(os, name, guarded(name, getattr(os, name))))
        stack.enter_context(patch.object(builtins, "open", opened))
        stack.enter_context(patch.object(io, "open", opened))
        yield calls


@contextmanager
def small_files(largest: int) -> Iterator[None]:
    """No file can grow beyond so many bytes, whoever writes it: also libraries that are not in Python."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (largest, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def unchecked(folder: Path) -> Path:
    """The same without its checksums, as folders from elsewhere are: what is changed now is met by whoever reads it."""
    for path in folder.rglob(CHECKSUMS):
        path.unlink()
    return folder


def in_one_line(call: Callable[[], Result]) -> Result:
    """What the call gives; an error of ours has one line, and passes on."""
    try:
        return call()
    except NearerError as error:
        if "\n" in str(error):
            raise AssertionError(f"an error of several lines: {error}") from error
        raise


def flip(path: Path, bit: int) -> None:
    """Flip one bit of a file, counted from its beginning."""
    with open(path, "r+b") as file:
        file.seek(bit // 8)
        [byte] = file.read(1)
        file.seek(bit // 8)
        file.write(bytes([byte ^ (1 << bit % 8)]))
