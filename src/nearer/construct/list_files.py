"""Reading ranking lists back: a folder of a construction, also one that is not finished, or a file of lists."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from nearer.construct.construction import ABOUT, JOURNAL
from nearer.construct.lists import KIND
from nearer.errors import DamagedError, InputError
from nearer.storage.sealed import read_sealed_json, unsealed_line
from nearer.text.faults import ReadReport
from nearer.text.reading import read_ranking_lists
from nearer.typed_files import FileFacts, as_typed


@dataclass(frozen=True)
class ListFile:
    """Lists and where they are from. about: the header of a construction, where there is one; rejected: what it
    counted; unfinished: its data set is not written yet."""

    name: str
    lists: list[tuple[str, ...]]
    about: dict[str, Any] = field(default_factory=dict)
    rejected: dict[str, int] = field(default_factory=dict)
    unfinished: bool = False
    report: ReadReport | None = None


def read_lists(source: str | Path) -> ListFile:
    """All lists of a folder or file; what else is in it is an error that says so."""
    path = Path(source)
    if not path.exists():
        raise InputError(f"{path}: no such file or folder; `nearer construct lists` makes lists.")
    return _of_folder(path) if path.is_dir() else _of_file(path)


def _of_folder(folder: Path) -> ListFile:
    header = _header(folder / ABOUT)
    if header is None:
        raise InputError(f"{folder}: is no folder of `nearer construct`: it has no {ABOUT}.")
    _check_kind(folder, header)
    for name in ("data.jsonl", "data.parquet"):
        if (folder / name).exists():
            return _of_file(folder / name, shown=str(folder))
    lists, rejected = _of_journal(folder / JOURNAL)
    if not lists:
        raise InputError(f"{folder}: no list is finished yet; `nearer construct lists` goes on with it.")
    return ListFile(str(folder), lists, header["about"], rejected, unfinished=True)


def _of_file(path: Path, *, shown: str | None = None) -> ListFile:
    if path.name == JOURNAL:
        raise InputError(f"{path}: is the journal of a construction; name its folder.")
    header = _header(path.parent / ABOUT) if path.name.startswith("data.") else None
    header = header or _parquet_header(path)
    if header is not None:
        _check_kind(path, header)
    reading = read_ranking_lists(path)
    try:
        lists = [record.sentences for record in reading]
        reading.report.check_kept()
    except InputError as error:
        raise InputError(f"{path}: holds no ranking lists (`nearer construct lists` makes them).\n{error}") from None
    facts = header or {}
    rejected = facts.get("result", {}).get("rejected", {})
    return ListFile(shown or str(path), lists, facts.get("about", {}), rejected, report=reading.report)


class ListRecord(FileFacts):
    sentences: tuple[str, ...]


class JournalLine(FileFacts):
    number: int
    record: ListRecord | None = None
    rejected: str = ""


def _of_journal(path: Path) -> tuple[list[tuple[str, ...]], dict[str, int]]:
    found: dict[int, tuple[str, ...]] = {}
    rejected: dict[str, int] = {}
    lines = path.read_text(encoding="utf-8").split("\n")[:-1] if path.exists() else []  # the last may not be whole
    for number, line in enumerate(lines, 1):
        try:
            piece = as_typed(JournalLine, unsealed_line(line), f"{path}: line {number}")
        except (ValueError, InputError):
            raise InputError(f"{path}: line {number} is damaged; remove it to have it built again.") from None
        if piece.record is not None:
            found[piece.number] = piece.record.sentences
        else:
            rejected[piece.rejected] = rejected.get(piece.rejected, 0) + 1
    return [found[number] for number in sorted(found)], rejected


def _check_kind(path: Path, header: dict[str, Any]) -> None:
    kind = header["about"].get("kind")
    if kind != KIND:
        raise InputError(f"{path}: holds {kind or 'something else'}; only {KIND} can be inspected.")


def _header(path: Path) -> dict[str, Any] | None:
    try:
        header = read_sealed_json(path, "construct the lists anew")
    except FileNotFoundError:
        return None
    except DamagedError:
        raise
    except (OSError, ValueError):
        raise InputError(f"{path}: is not a header of a construction.") from None
    if not isinstance(header, dict) or not isinstance(header.get("about"), dict):
        raise InputError(f"{path}: is not a header of a construction.")
    return header


def _parquet_header(path: Path) -> dict[str, Any] | None:
    if path.suffix != ".parquet" or not path.exists():
        return None
    from nearer.extras import require

    parquet = require("pyarrow.parquet", "parquet", f"{path}: reading Parquet")
    try:
        raw = (parquet.read_schema(path).metadata or {}).get(b"nearer")
        header = None if raw is None else json.loads(raw)
    except Exception:  # not Parquet at all: the reading says so
        return None
    return header if isinstance(header, dict) and isinstance(header.get("about"), dict) else None
