"""The table of docs/architectures.md: what every architecture can do, found out by doing it.

    python tests/checkpoints/zoo_table.py          # make architectures: writes the table anew

The tests read the table and compare it, cell by cell, with what they find.
"""

from __future__ import annotations

import os
import re
import sys
import tempfile
import warnings
from collections.abc import Callable
from functools import partial
from importlib.metadata import version
from multiprocessing import get_context
from pathlib import Path

import zoo
import zoo_checks

from nearer.errors import NearerError

DOCUMENT = Path(__file__).parents[2] / "docs" / "architectures.md"
START, END = "<!-- table -->", "<!-- end of table -->"
YES = "✓"
COLUMNS = ("hub form", "bare", "sentence-transformers", "SimCSE", "ONNX")
Row = dict[str, str]


def cell(name: str, column: str, root: Path) -> str:
    """`✓`, or the one-line error of what does not work; any other exception is a defect."""
    check = _check(name, column, root)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            check()
    except NearerError as error:
        if "\n" in str(error):
            raise
        # without the folder before it and the other library's words behind it, which every version words anew
        return re.sub(r"^.*?: |(?<=traced) \(.*\)(?=\.$)", "", str(error).replace(str(root) + os.sep, ""))
    return YES


def _check(name: str, column: str, root: Path) -> Callable[[], object]:
    hub = partial(zoo.make, name, zoo.HUB, root)
    if column == "hub form":
        return lambda: zoo_checks.encodes_as_transformers(name, hub())
    if column == "bare":
        return lambda: zoo_checks.encodes_as_transformers(name, zoo.make(name, zoo.BARE, root))
    if column == "sentence-transformers":
        return lambda: zoo_checks.survives_saving(name, hub(), root / f"{name}-saved")
    if column == "SimCSE":
        return lambda: zoo_checks.trains(name, hub(), root / f"{name}-run")
    return lambda: zoo_checks.exports(name, hub(), root / f"{name}-onnx")


def libraries() -> str:
    """What decides whether code can be traced, in words."""
    packages = ("torch", "transformers", "sentence-transformers")
    return "Made with " + ", ".join(f"{name} {version(name).partition('+')[0]}" for name in packages) + "."


def read_libraries() -> str:
    found = re.search(r"^Made with .*$", DOCUMENT.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return found.group() if found else ""


def read_table() -> dict[str, Row]:
    """The rows of the document, with its notes in place of their numbers."""
    text = DOCUMENT.read_text(encoding="utf-8")
    table, _, after = text.partition(START)[2].partition(END)
    notes = dict(re.findall(r"^\[(\d+)\] (.*)$", after, flags=re.MULTILINE))
    rows = {}
    for line in table.strip().splitlines()[2:]:
        name, *cells = (part.strip() for part in line.strip().strip("|").split(" | "))
        found = (notes.get(text.strip("[]"), text) for text in cells)
        rows[name.strip("` ")] = dict(zip(COLUMNS, found, strict=True))
    return rows


def write_table(rows: dict[str, Row]) -> None:
    notes: dict[str, int] = {}
    lines = [f"| architecture | {' | '.join(COLUMNS)} |", "| --- |" + " --- |" * len(COLUMNS)]
    for name, row in rows.items():
        cells = [text if text == YES else f"[{notes.setdefault(text, len(notes) + 1)}]" for text in row.values()]
        lines.append(f"| `{name}` | {' | '.join(cells)} |")
    before, rest = DOCUMENT.read_text(encoding="utf-8").split(START)
    after = rest.split(END)[1]
    after = re.sub(r"^(\[\d+\]|Made with) .*\n\n?", "", after, flags=re.MULTILINE).lstrip("\n")
    told = "".join(f"[{number}] {text}\n\n" for text, number in notes.items())
    table = "\n".join([START, *lines, END])
    DOCUMENT.write_text(f"{before}{table}\n\n{libraries()}\n\n{told}{after}", encoding="utf-8")


def _row(name: str) -> Row:
    from transformers.utils import logging

    logging.set_verbosity_error()
    logging.disable_progress_bar()
    os.environ["HF_HUB_OFFLINE"] = "1"
    with tempfile.TemporaryDirectory() as folder:
        os.environ["NEARER_CACHE"] = str(Path(folder) / "cache")
        row = {column: cell(name, column, Path(folder)) for column in COLUMNS}
    print(name, *("" if text == YES else text for text in row.values()), sep=" ", flush=True)
    return row


if __name__ == "__main__":
    chosen = sys.argv[1:] or list(zoo.ARCHITECTURES)
    with get_context("spawn").Pool(os.cpu_count(), maxtasksperchild=8) as pool:
        found = dict(zip(chosen, pool.imap(_row, chosen), strict=True))
    write_table(found if len(found) == len(zoo.ARCHITECTURES) else {**read_table(), **found})
