"""Whether what nearer wrote is still what it wrote: every checksum below a folder, looked at on request.

Everything is checked when it is read as well. This finds damage before it is met, say in a backup.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from nearer.doctor.findings import Finding, State
from nearer.errors import InputError, first_line
from nearer.storage.checksums import CHECKSUMS, all_damage
from nearer.storage.sealed import sealed_content, sealed_lines

CONFIG, METRICS, MANIFEST, ABOUT, JOURNAL, STORE = (
    "config.yaml",
    "metrics.jsonl",
    "manifest.json",
    "about.json",
    "journal.jsonl",
    "keys.bin",
)
# What to do about damage in a folder that holds one of these; the first that fits
WAYS_BACK = {
    "state.json": "an older checkpoint is taken when the run is resumed",
    CONFIG: "start the run anew, or take it from a backup",
    MANIFEST: "build the index anew: nearer search build",
    "lexical.json": "build the index anew: nearer search build",
    ABOUT: "construct the data anew in a new folder",
    STORE: "delete the folder: its vectors are computed anew",
    "store.json": "nothing to be done: it is built anew when it is needed",
    "modules.json": "get the model again, from where it came or from its run",
}
OTHERWISE = "make it anew, or take it from a backup"


def verify(target: Path) -> Iterator[Finding]:
    """A run, a model, an index, a construction, a store, vectors of `nearer encode`, or a folder with any of them."""
    if not target.exists():
        raise InputError(f"{target}: no such file or folder.")
    checked = 0
    for folder in [target] if target.is_file() else _folders(target):
        for kind, check in _kinds(folder):
            checked += 1
            faults = list(check(folder))
            for fault in faults:
                yield Finding(kind, State.broken, fault, _way_back(folder))
            if not faults:
                yield Finding(kind, State.good, str(folder))
    if not checked:
        yield Finding("checksums", State.absent, f"{target}: has none (from elsewhere, or of an older version)")


def _folders(target: Path) -> Iterator[Path]:
    yield target
    for path in sorted(target.rglob("*")):
        if path.is_dir() and not any(part.startswith(".") for part in path.relative_to(target).parts):
            yield path


def _kinds(target: Path) -> Iterator[tuple[str, Callable[[Path], Iterator[str]]]]:
    """What there is to check in a folder, not below it; or in a file."""
    if target.is_file():
        if all(target.with_suffix(suffix).exists() for suffix in (".npy", ".json")):
            yield "vectors", _encoded
        return
    if (target / CHECKSUMS).exists():
        yield "checksums", all_damage
    if (target / CONFIG).exists() or (target / METRICS).exists():
        yield "run", _run
    if (target / MANIFEST).exists():
        yield "index", _index
    if (target / ABOUT).exists():
        yield "construction", _construction
    if (target / STORE).exists():
        yield "vector store", _vector_store
    if any(path.with_suffix(".json").exists() for path in _arrays(target)):
        yield "vectors", _all_encoded


def _run(folder: Path) -> Iterator[str]:
    if (folder / CONFIG).exists():
        yield from _said(folder / CONFIG)
    yield from _lines(folder / METRICS)
    for path in folder.glob("*.json"):
        yield from _said(path)


def _construction(folder: Path) -> Iterator[str]:
    yield from _said(folder / ABOUT)
    yield from _lines(folder / JOURNAL)


def _index(folder: Path) -> Iterator[str]:
    from nearer.search.verify import find_damage

    yield from find_damage(folder)


def _vector_store(folder: Path) -> Iterator[str]:
    from nearer.teachers.vector_store import damage

    yield from damage(folder)


def _all_encoded(folder: Path) -> Iterator[str]:
    for path in _arrays(folder):
        if path.with_suffix(".json").exists():
            yield from _encoded(path)


def _encoded(path: Path) -> Iterator[str]:
    from nearer.encoder.files import encoded_damage

    yield from encoded_damage(path.with_suffix(".json"))


def _arrays(folder: Path) -> list[Path]:
    return [path for path in sorted(folder.glob("*.npy")) if not path.name.endswith(".lines.npy")]


def _lines(path: Path) -> Iterator[str]:
    if path.exists():
        yield from (f"{path}: line {number} is damaged" for number, line in sealed_lines(path) if line is None)


def _said(path: Path) -> Iterator[str]:
    try:
        sealed_content(path)
    except InputError as error:
        yield first_line(error).partition(";")[0]


def _way_back(target: Path) -> str:
    folder = target.parent if target.is_file() else target
    return next((way for name, way in WAYS_BACK.items() if (folder / name).exists()), OTHERWISE)
