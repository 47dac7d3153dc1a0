"""What README and guide say of each method is what its class says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from nearer.cli import completion
from nearer.methods import METHODS
from nearer.training.recipes import recipe_names

ROOT = Path(__file__).parents[2]


def rows(document: str) -> list[list[str]]:
    """The rows of the table whose first column is `method`."""
    text = (ROOT / document).read_text(encoding="utf-8")
    [table] = re.findall(r"^\| method \|.*\n\| ---.*\n((?:\|.*\n)+)", text, re.MULTILINE)
    return [[cell.strip() for cell in line.strip("| ").split(" | ")] for line in table.splitlines()]


@pytest.mark.parametrize("name", METHODS)
def test_the_readme(name: str) -> None:
    facts = METHODS[name].facts
    [row] = [row for row in rows("README.md") if row[0] == facts.title]
    assert (row[1], row[3]) == (facts.needs, facts.what)


@pytest.mark.parametrize("name", METHODS)
def test_the_guide(name: str) -> None:
    [row] = [row for row in rows("docs/guide.md") if f"`{name}-*`" in row[1] or f"`{name}`" in row[1]]
    assert row[0].startswith(METHODS[name].facts.title)


def test_every_method_has_recipes_and_is_completed() -> None:
    assert tuple(METHODS) == completion.METHODS
    for name in METHODS:
        assert any(recipe == name or recipe.startswith(f"{name}-") for recipe in recipe_names())


def test_papers_are_whole() -> None:
    for method in METHODS.values():
        paper = method.facts.paper
        assert paper.bibtex().startswith(f"@{paper.kind}{{{paper.key},\n  title = {{{{")
        assert all(", " in author for author in paper.authors)
