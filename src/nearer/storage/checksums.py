"""Checksums of what was written: a bit that has flipped on the disk or on the way is an error, not another result.

    checksums.json   of a folder: for each file in it, its size and its XXH3 (128 bit)

Single JSON, YAML and JSON-lines files carry theirs inside (`sealed.py`), files that grow have them by pieces
(`pieces.py`). XXH3 finds damage, it does not keep out forgers; it is faster than any disk.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import xxhash

from nearer.errors import DamagedError, first_line

CHECKSUMS = "checksums.json"
FORMAT, ALGORITHM = 1, "xxh3-128"
# Cards are written for people, who may change them
UNCHECKED = ("README.md", CHECKSUMS)
# As much as stays in a core's own memory: twice as fast as larger parts
AT_ONCE = 2**18


class FileSum(NamedTuple):
    size: int
    sum: str


def file_sum(path: Path) -> FileSum:
    digest, size, part = xxhash.xxh3_128(), 0, memoryview(bytearray(AT_ONCE))
    with open(path, "rb", buffering=0) as file:
        while read := file.readinto(part):
            digest.update(part[:read])
            size += read
    return FileSum(size, digest.hexdigest())


def write_checksums(folder: Path) -> None:
    """Of all files below `folder`, which nobody writes into any more."""
    sums = {path.relative_to(folder).as_posix(): file_sum(path) for path in _files(folder)}
    (folder / CHECKSUMS).write_text(checksums_text(sums), encoding="utf-8")


def checksums_text(sums: Mapping[str, FileSum]) -> str:
    files = {name: one._asdict() for name, one in sums.items()}
    content = {"format": FORMAT, "algorithm": ALGORITHM, "files": files}
    return json.dumps(content, indent=2, ensure_ascii=False) + "\n"


def read_checksums(folder: Path) -> dict[str, FileSum] | None:
    """None where there are none: a folder from elsewhere, or of an older version."""
    path = folder / CHECKSUMS
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        if (found["format"], found["algorithm"]) != (FORMAT, ALGORITHM):
            raise ValueError(f"format {found['format']!r}, {found['algorithm']!r}")
        return {str(name): FileSum(int(one["size"]), str(one["sum"])) for name, one in found["files"].items()}
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise DamagedError(
            f"{path}: cannot be read ({first_line(error)}); if the folder's files are good, delete this one."
        ) from None


def check_folder(folder: Path, back: str, *, only: Collection[str] | None = None) -> bool:
    """That its files are those that were written; False where it has no checksums. back: what to do if they are not."""
    sums = read_checksums(folder)
    for damage in _damage(folder, sums or {}, only):
        raise DamagedError(f"{damage}; {back} (changed on purpose? then delete {folder / CHECKSUMS}).")
    return sums is not None


def check_file(path: Path, back: str) -> None:
    """That a file is what was written, if its folder has checksums and speaks of it."""
    if (path.parent / CHECKSUMS).exists():
        check_folder(path.parent, back, only=(path.name,))


def all_damage(folder: Path) -> Iterator[str]:
    """What is wrong with a folder that has checksums, missing files included."""
    sums = read_checksums(folder) or {}
    yield from _damage(folder, sums, None)
    for name in sums:
        if not (folder / name).is_file():
            yield f"{folder / name}: is missing"


def _damage(folder: Path, sums: dict[str, FileSum], only: Collection[str] | None) -> Iterator[str]:
    for name, expected in sums.items():
        path = folder / name
        # a part of a model may have been left out on purpose, in copying; loading says what it cannot do without
        if (only is None or name in only) and path.is_file() and (fault := differs(path, expected)):
            yield f"{path}: {fault}"


def differs(path: Path, expected: FileSum) -> str:
    """In what a file is not what was written; empty if it is."""
    try:
        size = path.stat().st_size
        if size != expected.size:
            return f"has {size:,} bytes, {expected.size:,} were written"
        return "" if file_sum(path) == expected else "is not what was written (its checksum differs)"
    except OSError as error:
        return f"cannot be read ({error.strerror or error})"


def _files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file() and path.name not in UNCHECKED)
