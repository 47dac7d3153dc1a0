"""Finding the files of a collection, and their bytes as text, with an account of each file.

What a folder holds besides (hidden files, pictures, programs) is counted by kind and left alone. A file that is named
by itself is read whatever its name is, if it is text.
"""

from __future__ import annotations

import codecs
import os
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from nearer.errors import InputError, first_line
from nearer.text.sources import DamagedData, open_bytes

KINDS = {
    "txt": ("txt", "text"),
    "md": ("md", "markdown", "mdx", "rst"),
    "html": ("html", "htm", "xhtml"),
    "pdf": ("pdf",),
    "csv": ("csv",),
    "tsv": ("tsv", "tab"),
    "jsonl": ("jsonl", "ndjson"),
    "json": ("json",),
    "parquet": ("parquet", "pq"),
}
TABLES = frozenset({"csv", "tsv", "jsonl", "json", "parquet"})
COMPRESSED = ("gz", "xz", "zst", "bz2")
LARGEST = 64 * 2**20  # bytes of a file that is one document, or of a line that is one
UTF_16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
HEAD = 8192


@dataclass
class FileAccount:
    """What came of one file.

    Attributes:
        path: The file.
        kind: What it was read as: txt, md, html, pdf, csv, tsv, jsonl, json, parquet.
        documents: How many documents it gave.
        dropped: What could not be used of it, by reason: `{"empty": 38}`.
        fault: Why nothing of it could be read; "" otherwise.
        notes: How it was read, where that was a guess: which columns, one document a line, another encoding.
    """

    path: str
    kind: str
    documents: int = 0
    dropped: Counter[str] = field(default_factory=Counter)
    fault: str = ""
    notes: list[str] = field(default_factory=list)


class Found(NamedTuple):
    """A file to read. name: how its documents are called, the path below the folder that was given."""

    path: Path
    kind: str
    name: str


def kind_of(path: Path) -> str | None:
    """By the ending of its name, behind that of its compression."""
    suffixes = [suffix.lower().lstrip(".") for suffix in path.suffixes]
    while suffixes and suffixes[-1] in COMPRESSED:
        suffixes.pop()
    last = suffixes[-1] if suffixes else ""
    return next((kind for kind, endings in KINDS.items() if last in endings), None)


def find_files(paths: Sequence[str | Path], skipped: Counter[str]) -> list[Found]:
    """The files below `paths`, in the order given and sorted within folders; `skipped` counts what is passed over."""
    found: dict[Path, Found] = {}
    for given in map(Path, paths):
        try:
            if given.is_dir():
                for path, name in _walk(given, skipped):
                    found.setdefault(path.resolve(), Found(path, kind_of(path) or "txt", name))
            elif given.exists():
                found.setdefault(given.resolve(), Found(given, kind_of(given) or "txt", given.name))
            else:
                raise InputError(f"{given}: no such file or folder.", argument="documents")
        except (OSError, ValueError) as error:
            if isinstance(error, InputError):
                raise
            raise InputError(f"{str(given)!r}: cannot be opened ({first_line(error)}).", argument="documents") from None
    return list(found.values())


def _walk(folder: Path, skipped: Counter[str]) -> Iterator[tuple[Path, str]]:
    def refuse(error: OSError) -> None:
        skipped["folders that cannot be opened"] += 1

    for root, folders, files in os.walk(folder, onerror=refuse):
        hidden = [name for name in folders if name.startswith(".")]
        skipped["hidden folders"] += len(hidden)
        folders[:] = sorted(set(folders) - set(hidden))
        for name in sorted(files):
            path = Path(root, name)
            if name.startswith("."):
                skipped["hidden files"] += 1
            elif kind_of(path) is None:
                skipped[f"files of another kind ({path.suffix.lower() or 'no ending'})"] += 1
            elif not path.is_file():
                skipped["names that are no files"] += 1
            else:
                yield path, path.relative_to(folder).as_posix()
    for reason in [reason for reason, count in skipped.items() if not count]:
        del skipped[reason]


class Unreadable(Exception):
    """A file that gives no document, in words."""


TOO_LARGE = (
    f"larger than {LARGEST // 2**20} MB, too much for one document; cut it, make it a table, or put a document on each "
    "line of a txt file (--txt line)"
)


def read_bytes(path: Path) -> bytes:
    """A whole file that is one document, unpacked where it is compressed."""
    with _as_unreadable(path), open_bytes(path) as (stream, _):
        data = stream.read(LARGEST + 1)
    if len(data) > LARGEST:
        raise Unreadable(TOO_LARGE)
    return data


def read_blocks(path: Path) -> Iterator[bytes]:
    """A file of any size, in blocks of many lines; a small file is one block. No line may be larger than a block."""
    with _as_unreadable(path), open_bytes(path) as (stream, _):
        block = stream.read(LARGEST + 1)
        while len(block) > LARGEST:
            end = block.rfind(b"\n") + 1
            if not end:
                raise Unreadable(TOO_LARGE)
            yield block[:end]
            block = block[end:] + stream.read(LARGEST + 1 - len(block[end:]))
        yield block


@contextmanager
def _as_unreadable(path: Path) -> Iterator[None]:
    """What goes wrong with the file is told as `Unreadable`."""
    try:
        yield
    except InputError as error:
        raise Unreadable(str(error).removeprefix(f"{path}: ").rstrip(".")) from None
    except (OSError, DamagedData) as error:
        raise Unreadable(f"damaged or not readable ({first_line(error)})") from None


def decode(data: bytes, encoding: str, account: FileAccount) -> str:
    """Text by the encoding that was named; else by its byte order mark, as UTF-8, or as Western European, told."""
    for mark, name in (
        (codecs.BOM_UTF8, "utf-8-sig"),
        (codecs.BOM_UTF16_LE, "utf-16"),
        (codecs.BOM_UTF16_BE, "utf-16"),
    ):
        if data.startswith(mark):
            encoding = name
    if b"\x00" in data[:HEAD] and encoding != "utf-16":
        raise Unreadable("a binary file, no text")
    try:
        text = data.decode(encoding)
    except UnicodeError:
        if encoding.replace("_", "-").lower() not in ("utf-8", "utf8"):
            raise Unreadable(f"not text in the encoding {encoding}") from None
        foreign = len(data.translate(None, bytes(range(128))))
        # a language that is written with other letters than a to z has far more of them
        if foreign > 0.15 * len(data):
            raise Unreadable("not UTF-8 text; name its encoding with encoding (--encoding)") from None
        text = data.decode("cp1252", errors="replace")
        account.notes.append("not UTF-8, read as Western European (cp1252); encoding (--encoding) names another")
    return text.replace("\r\n", "\n").replace("\r", "\n").replace("\x00", "")
