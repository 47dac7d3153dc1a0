"""The parts import each other as docs/architecture.md says, and no arrow runs back."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "nearer"
DOCUMENT = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
PARTS = sorted(folder.name for folder in PACKAGE.iterdir() if (folder / "__init__.py").exists())
SHARED = sorted(file.stem for file in PACKAGE.glob("*.py") if file.stem != "__init__")


def documented() -> dict[str, set[str]]:
    """The rows of the table `part | stands on`."""
    [table] = re.findall(r"^\| part \| stands on \|\n\| --- \| --- \|\n((?:\|.*\n)+)", DOCUMENT, re.MULTILINE)
    rows = [re.findall(r"`(\w+)`", line) for line in table.splitlines()]
    return {part: set(below) for part, *below in rows}


def floors() -> list[list[str]]:
    """The drawing, from the top."""
    [drawing] = re.findall(r"```\n(cli\n.*?)```", DOCUMENT, re.DOTALL)
    return [line.split() for line in drawing.splitlines()]


def imports(file: Path) -> Iterator[tuple[int, str]]:
    """Line and part (or shared module) of all that a file of ours takes from elsewhere in the package.

    Those inside functions and for type checking alone count: they are arrows too.
    """
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module == "nearer":
            names = [f"nearer.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = [node.module]
        for name in names:
            if name.startswith("nearer."):
                yield node.lineno, name.split(".")[1]


def strangers(files: Iterator[Path], allowed: set[str]) -> list[str]:
    known = {*PARTS, *SHARED}  # `from nearer import __version__` is no arrow
    return [
        f"{file.relative_to(ROOT)}:{line} imports {name}"
        for file in sorted(files)
        for line, name in imports(file)
        if name in known - allowed
    ]


def test_every_part_is_in_the_table_and_in_the_drawing() -> None:
    assert sorted(documented()) == PARTS
    assert sorted(part for floor in floors() for part in floor) == PARTS


@pytest.mark.parametrize("part", PARTS)
def test_a_part_imports_what_the_document_allows(part: str) -> None:
    assert strangers((PACKAGE / part).rglob("*.py"), {part, *documented()[part], *SHARED}) == []


def test_no_circle_between_files() -> None:
    """Also not through imports inside functions or for type checking: whoever reads a file reads what it names."""
    files = {".".join(file.relative_to(PACKAGE.parent).with_suffix("").parts): file for file in PACKAGE.rglob("*.py")}
    beside = {f"benchmarks.{file.stem}": file for file in (ROOT / "benchmarks").glob("[!_]*.py")}
    named = {name.removesuffix(".__init__"): file for name, file in files.items() if file.parent != PACKAGE} | {
        f"nearer.{name}": PACKAGE / f"{name}.py" for name in SHARED
    }
    named |= beside
    TopologicalSorter({name: set(modules(file, set(named))) for name, file in named.items()}).prepare()


def modules(file: Path, known: set[str]) -> Iterator[str]:
    """The modules of ours that a file imports, by their whole names."""
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in known)
        elif isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                whole = f"{node.module}.{alias.name}"
                yield from {whole if whole in known else node.module} & known


def test_benchmarks_lie_beside_the_package() -> None:
    """A wheel has none, so one file alone may import them, and it does so inside its functions."""
    importers = {
        file.relative_to(PACKAGE).as_posix()
        for file in PACKAGE.rglob("*.py")
        if re.search(r"^\s*(?:from|import) benchmarks\b", file.read_text(encoding="utf-8"), re.MULTILINE)
    }
    assert importers == {"cli/bench.py"}
    assert not re.search(r"^(?:from|import) benchmarks\b", (PACKAGE / "cli" / "bench.py").read_text(), re.MULTILINE)


def test_what_all_share_knows_no_part() -> None:
    assert strangers(PACKAGE.glob("[!_]*.py"), set(SHARED)) == []


def test_no_arrow_runs_back() -> None:
    height = {part: -number for number, floor in enumerate(floors()) for part in floor}
    arrows = [(part, below) for part, all_below in documented().items() for below in all_below]
    assert [(part, below) for part, below in arrows if height[below] >= height[part]] == []
    shared = {name: {found for _, found in imports(PACKAGE / f"{name}.py")} for name in SHARED}
    TopologicalSorter(shared).prepare()  # raises CycleError
