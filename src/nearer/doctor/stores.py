"""The cache: whether it can be written, what is in it, and what was begun there and never finished."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from nearer.doctor.findings import Finding, State
from nearer.storage.cache import CACHE_VARIABLE, cache_folder
from nearer.storage.sealed import read_sealed_json
from nearer.units import as_bytes

LITTLE_SPACE = 2 * 2**30
KEY_BYTES = 16  # of a vector store's keys


def check_cache() -> Iterator[Finding]:
    """Where it is, whether a file can be written there, and how much it holds."""
    root = cache_folder("tokens").parent
    try:
        with tempfile.TemporaryFile(dir=root) as file:
            file.write(b"nearer")
    except OSError as error:
        mend = f"name a folder that can be written: export {CACHE_VARIABLE}=FOLDER"
        yield Finding("cache", State.broken, f"{root}: cannot be written ({error.strerror})", mend)
        return
    yield Finding("cache", State.good, f"{root}: {as_bytes(_size(root))}")


def check_token_stores() -> Iterator[Finding]:
    """Stores that are whole, damaged ones, and what builds that were killed have left."""
    from filelock import FileLock, Timeout

    from nearer.text.token_store import TokenStore

    root = cache_folder("tokens")
    whole, damaged, left, building = [], [], [], []
    for folder in sorted(path for path in root.iterdir() if path.is_dir()):
        if folder.name.endswith(".unfinished"):
            try:
                with FileLock(root / f"{folder.name[1:].partition('-')[0]}.lock", timeout=0):
                    left.append(folder)
            except Timeout:
                building.append(folder)
            continue
        try:
            TokenStore(folder)
            whole.append(folder)
        except (OSError, ValueError, KeyError):
            damaged.append(folder)
    found = f"{len(whole)} whole, {as_bytes(sum(map(_size, whole)))}"
    found += f"; {len(building)} being built" if building else ""
    if damaged:
        mend = f"nothing to be done: built anew when they are needed; or delete {_listed(damaged)}"
        yield Finding("token stores", State.doubtful, f"{len(damaged)} damaged; {found}", mend)
    if left:
        size = as_bytes(sum(map(_size, left)))
        mend = f"delete what an ended process left: rm -r {_listed(left)}"
        yield Finding("token stores", State.doubtful, f"{len(left)} unfinished, {size}; {found}", mend)
    if not damaged and not left:
        yield Finding("token stores", State.good, found)


def check_vector_stores() -> Iterator[Finding]:
    """Vectors of teachers. One without a finished corpus was interrupted, and goes on when it is asked for again."""
    root = cache_folder("vectors")
    whole = []
    faulty = False
    for folder in sorted(path for path in root.iterdir() if path.is_dir()):
        if not (folder / "model.json").exists():
            continue
        facts = read_sealed_json(folder / "model.json", f"delete {folder}")
        keys, vectors = (_length(folder / name) for name in ("keys.bin", "vectors.bin"))
        rows = keys // KEY_BYTES
        if vectors < rows * 2 * facts["dimension"]:  # float16
            faulty = True
            mend = f"nothing to be done: the lost ones are computed anew; or delete {folder}"
            yield Finding("vector stores", State.doubtful, f"{facts['model']}: vectors are lost", mend)
        elif not any((folder / "rows").glob("[!.]*")):
            faulty = True
            mend = f"give the same command again to go on, or delete {folder}"
            yield Finding("vector stores", State.doubtful, f"{facts['model']}: interrupted after {rows:,}", mend)
        else:
            whole.append(f"{facts['model']} {rows:,}")
    if not faulty:
        yield Finding("vector stores", State.good, ", ".join(whole) if whole else "none yet")


def check_disk() -> Iterator[Finding]:
    """Space where the cache is, and where runs go unless they are told otherwise."""
    roots = {"the cache": cache_folder("tokens"), "this folder": Path.cwd()}
    free = {name: shutil.disk_usage(path).free for name, path in roots.items()}
    found = ", ".join(f"{as_bytes(size)} free for {name}" for name, size in free.items())
    if min(free.values()) < LITTLE_SPACE:
        mend = f"make room, or name folders elsewhere: {CACHE_VARIABLE} for the cache, --out for runs"
        yield Finding("disk", State.doubtful, found, mend)
    else:
        yield Finding("disk", State.good, found)


def _listed(folders: list[Path]) -> str:
    return " ".join(map(str, folders[:3])) + (f" and {len(folders) - 3} more" if len(folders) > 3 else "")


def _size(folder: Path) -> int:
    return sum(_length(path) for path in folder.rglob("*") if not path.is_symlink())


def _length(path: Path) -> int:
    try:
        return path.stat().st_size if path.is_file() else 0
    except OSError:  # gone since it was listed
        return 0
