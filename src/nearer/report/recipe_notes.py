"""What the recipes that ship with the package say of their settings, read from their YAML files as text."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nearer.typed_files import parse_yaml

FOLDER = Path(__file__).parent.parent / "recipes"
COMMENTED = re.compile(r"^(\w+):\s.*?\s#\s+(.+)$", flags=re.MULTILINE)


@dataclass(frozen=True)
class RecipeNotes:
    """summary: what the recipe is for; values: its settings; comments: what it says of some of them."""

    summary: str
    values: dict[str, Any]
    comments: dict[str, str]

    def said(self, setting: str, value: object) -> str:
        """The recipe's comment, if the run has the recipe's value; else what the recipe has instead."""
        if setting not in self.values:
            return ""
        if _same(self.values[setting], value):
            return self.comments.get(setting, "")
        return f"the recipe has {shown(self.values[setting])}"


def recipe_notes(name: str) -> RecipeNotes | None:
    """None for a recipe that did not ship with the package: runs note its name, not its text."""
    path = FOLDER / f"{name}.yaml"
    if not re.fullmatch(r"[\w.-]+", name) or not path.is_file():
        return None
    text = path.read_text(encoding="utf-8")
    opening = [line.lstrip("# ") for line in text.splitlines() if line.startswith("#")]
    return RecipeNotes(
        summary=opening[1] if len(opening) > 1 else "",  # the first line is the command that runs it
        values=parse_yaml(text),
        comments=dict(COMMENTED.findall(text)),
    )


def shown(value: object) -> str:
    """A setting as one writes it: `0.05`, `none`, `everyday, stsb-dev`."""
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:g}"
    if isinstance(value, list | tuple):
        return ", ".join(shown(part) for part in value) or "none"
    if isinstance(value, dict):
        return ", ".join(f"{name} {shown(part)}" for name, part in value.items() if part is not None)
    return str(value)


def _same(recipe: object, run: object) -> bool:
    """YAML reads `3e-5` as text, and a list of one is written without brackets."""
    one, two = ([value] if not isinstance(value, list) else value for value in (recipe, run))
    return len(one) == len(two) and all(_equal(first, second) for first, second in zip(one, two, strict=True))


def _equal(one: object, two: object) -> bool:
    try:
        return one == two or float(str(one)) == float(str(two))
    except ValueError:
        return False
