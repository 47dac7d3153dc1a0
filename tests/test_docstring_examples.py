"""Losses and public names say what a caller must know, and the examples in their docstrings run as they are printed."""

from __future__ import annotations

import dataclasses
import doctest
import inspect
import re
from pathlib import Path
from typing import Any

import pytest

import nearer
from nearer import objectives

LOSSES = {name: getattr(objectives, name) for name in objectives.__all__}
PUBLIC = {name: getattr(nearer, name) for name in nearer.__all__}
# made by a class method, which has the arguments; nobody calls them by themselves
MADE_BY = {
    "CrossEncoder": ("load", "score"),
    "Encoder": ("load", "encode"),
    "SearchIndex": ("build", "open", "add", "search"),
}
ERRORS = {name for name, found in PUBLIC.items() if isinstance(found, type) and issubclass(found, Exception)}


def docstring(found: Any) -> str:
    """Its own, not the one that a base class or `dataclass` gives it."""
    own = vars(found).get("__doc__") if isinstance(found, type) else found.__doc__
    return inspect.cleandoc(own or "")


def parts(text: str) -> dict[str, str]:
    """`Args:` and the other sections of a docstring, with what is indented below each."""
    found = re.findall(r"^([A-Z]\w+):\n((?:    .*\n|\n)+)", text + "\n", re.MULTILINE)
    return dict(found)


def described(section: str) -> list[str]:
    return re.findall(r"^    (\w+): ", section, re.MULTILINE)


def arguments(found: Any) -> list[str]:
    """What its caller can give, or the fields of a record."""
    if isinstance(found, type) and dataclasses.is_dataclass(found):
        return [field.name for field in dataclasses.fields(found)]
    if isinstance(found, type) and issubclass(found, tuple):
        return list(getattr(found, "_fields", ()))
    return [name for name in inspect.signature(found).parameters if name not in ("self", "cls")]


def examples(name: str, found: Any) -> doctest.DocTest:
    return doctest.DocTestParser().get_doctest(docstring(found), {}, name, None, 0)


def run(name: str, found: Any, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)  # examples write into the folder that they run in
    said: list[str] = []
    outcome = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(examples(name, found), out=said.append)
    assert outcome.attempted
    assert outcome.failed == 0, "".join(said)


@pytest.mark.parametrize("name", LOSSES)
class TestLosses:
    def test_every_argument_is_described(self, name: str) -> None:
        assert described(parts(docstring(LOSSES[name]))["Args"]) == arguments(LOSSES[name])

    def test_shapes_are_told(self, name: str) -> None:
        assert re.search(r"\(.*\)", parts(docstring(LOSSES[name]))["Shapes"])

    def test_its_example_runs(self, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        assert len(examples(name, LOSSES[name]).examples) <= 5
        run(name, LOSSES[name], tmp_path, monkeypatch)


@pytest.mark.parametrize("name", PUBLIC)
class TestPublicNames:
    def test_every_argument_is_described(self, name: str) -> None:
        found = PUBLIC[name]
        for method in MADE_BY.get(name, ()):
            given = getattr(found, method)
            assert described(parts(docstring(given))["Args"]) == arguments(given)
        if name in MADE_BY or name in ERRORS - {"NearerError"}:
            return
        sections = parts(docstring(found))
        assert described(sections.get("Args") or sections["Attributes"]) == arguments(found)

    def test_its_example_runs(self, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        if name in ("Hit", "SearchIndex"):
            pytest.importorskip("faiss")
        run(name, PUBLIC[name], tmp_path, monkeypatch)
