"""Everything that the package imports is declared in pyproject.toml: as core, or in the extra of its place."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "nearer"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
# distributions whose module has another name
DISTRIBUTIONS = {"yaml": "pyyaml", "faiss": "faiss-cpu", "llama_cpp": "llama-cpp-python"}
BROUGHT = {"triton": "torch"}  # on machines that it can compute on, and nowhere else
# files whose module-level imports may be an extra's: whoever imports them has asked for it
OPTIONAL_PLACES = {
    "serve": ["serve"],
    "sentence-transformers": ["integrations/sentence_transformers.py", "integrations/loss_base.py"],
    "mteb": ["integrations/mteb.py"],
    "ray": ["teachers/ray_source.py"],
}


def names(requirements: list[str]) -> set[str]:
    found = {re.split(r"[\[<>=!~; ]", requirement)[0] for requirement in requirements}
    return {name.lower().replace("_", "-") for name in found} - {"nearer"}


CORE = names(PROJECT["dependencies"])
EXTRAS = {extra: names(listed) for extra, listed in PROJECT["optional-dependencies"].items()}


def distribution(module: str) -> str:
    top = module.partition(".")[0]
    return DISTRIBUTIONS.get(top, BROUGHT.get(top, top)).lower().replace("_", "-")


@cache
def imported(file: Path) -> list[tuple[str, int, bool]]:
    """Distribution, line, and whether it is imported as soon as the file is."""
    return list(_imports(file))


def _imports(file: Path) -> Iterator[tuple[str, int, bool]]:
    tree = ast.parse(file.read_text(encoding="utf-8"))
    late = {
        inner
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        or (isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test))
        for inner in ast.walk(node)
    }
    for node in ast.walk(tree):
        modules: list[str] = []
        if isinstance(node, ast.Import):
            modules = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and not node.level:
            modules = [node.module or ""]
        elif isinstance(node, ast.Call) and getattr(node.func, "id", "") == "require":
            modules = [str(getattr(node.args[0], "value", ""))]
        for module in modules:
            if module.partition(".")[0] not in {*sys.stdlib_module_names, "nearer", "benchmarks", ""}:
                yield distribution(module), node.lineno, node not in late


FILES = sorted(PACKAGE.rglob("*.py"))


def test_every_import_is_declared() -> None:
    known = CORE.union(*EXTRAS.values())
    undeclared = {
        f"{file.relative_to(ROOT)}:{line} {name}"
        for file in [*FILES, *(ROOT / "benchmarks").glob("*.py")]
        for name, line, _ in imported(file)
        if name not in known
    }
    assert undeclared == set()


def test_what_is_imported_at_once_is_there_without_extras() -> None:
    places = {place: EXTRAS[extra] for extra, listed in OPTIONAL_PLACES.items() for place in listed}
    lacking = set()
    for file in FILES:
        here = file.relative_to(PACKAGE).as_posix()
        allowed = CORE.union(
            *(brought for place, brought in places.items() if here == place or here.startswith(f"{place}/"))
        )
        lacking |= {
            f"{here}:{line} {name}" for name, line, at_once in imported(file) if at_once and name not in allowed
        }
    assert lacking == set()


def test_require_names_an_extra_that_brings_it() -> None:
    wrong = []
    for file in FILES:
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "require":
                module, extra = (getattr(argument, "value", None) for argument in node.args[:2])
                if module and distribution(str(module)) not in EXTRAS[str(extra)]:
                    wrong.append(f"{file.relative_to(ROOT)}:{node.lineno} {module} [{extra}]")
    assert wrong == []


def requirements() -> list[str]:
    listed = [PROJECT["dependencies"], *PROJECT["optional-dependencies"].values()]
    return [one for group in listed for one in group if not one.startswith("nearer[")]


def test_everything_has_a_lower_bound() -> None:
    assert [one for one in requirements() if ">=" not in one] == []


def test_lower_bounds_are_those_that_were_installed() -> None:
    """`make test-lowest` installs constraints-lowest.txt: it must be what pyproject.toml allows at least."""
    lowest = {}
    for line in (ROOT / "constraints-lowest.txt").read_text(encoding="utf-8").splitlines():
        if "==" in line and not line.startswith(("#", "torch==")):  # torch is one build, as in constraints.txt
            name, _, version = line.partition("==")
            lowest[name.strip().lower().replace("_", "-")] = version.split("#")[0].strip()
    bounds = {}
    for one in requirements():
        found = re.match(r"([A-Za-z0-9_-]+)(?:\[[^]]*\])?>=([\d.]+)", one)
        if found:
            bounds[found[1].lower().replace("_", "-")] = found[2]
    different = {
        name: (lowest[name], bound)
        for name, bound in bounds.items()
        if name in lowest and not _same(lowest[name], bound)
    }
    assert different == {}
    assert names(PROJECT["dependencies"]) - {"torch"} <= set(lowest)


def _same(one: str, two: str) -> bool:
    """1.26 and 1.26.0 are one version."""

    def numbers(text: str) -> list[int]:
        parts = [int(part) for part in text.split(".")]
        while parts and parts[-1] == 0:
            parts.pop()
        return parts

    return numbers(one) == numbers(two)
