"""The reference pages, made from the code while the site is built: they cannot be out of date.

Settings come from the fields of the settings classes, recipes from their YAML files, commands from the program's own
help, and classes (by mkdocstrings) from their docstrings.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer.main
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

from nearer.cli.main import app
from nearer.methods import METHODS
from nearer.training.recipes import described_recipe, method_in_words, recipe_names, settings_of

SOURCE = Path(__file__).parents[1] / "src"
# whose public names are shown, under which heading; those of `nearer` itself come first
PYTHON = {
    "nearer": "What `import nearer` gives",
    "nearer.evaluation": "Evaluation",
    "nearer.baselines": "Baselines",
    "nearer.export": "Export",
    "nearer.integrations.sentence_transformers": "Losses for sentence-transformers",
    "nearer.integrations.mteb": "MTEB",
    "nearer.objectives": "Losses as functions of tensors",
}


def on_files(files: Files, config: MkDocsConfig) -> Files:
    pages = {
        "reference-settings.md": settings_page(),
        "reference-recipes.md": recipes_page(),
        "reference-commands.md": commands_page(),
        "reference-python.md": python_page(),
    }
    for name, text in pages.items():
        files.append(File.generated(config, name, content=text))
    return files


def settings_page() -> str:
    parts = [
        "# Settings",
        "Everything that a recipe can set. `nearer train RECIPE … --set NAME=VALUE` replaces one setting, and so does "
        "`settings={…}` in Python. In the terminal, `nearer settings METHOD` shows the same.",
    ]
    for heading, rows in settings_of().items():
        parts.append(f"## Settings of {heading}")
        if heading in METHODS:
            parts.append(_prose(method_in_words(heading)))
        cells = [(f"`{row.name}`", row.description, f"`{row.default}`", row.kind) for row in rows]
        parts.append(_table(("setting", "meaning", "default", "type"), cells))
    return "\n\n".join(parts)


def recipes_page() -> str:
    parts = [
        "# Recipes",
        "A recipe is a method with its settings. Run one by its name, or copy it into a YAML file of your own and run "
        "that. In the terminal, `nearer recipes NAME` shows the same.",
        _table(("recipe", "what it is for"), [(f"[{name}](#{name})", _purpose(name)) for name in recipe_names()]),
    ]
    for name in recipe_names():
        shown = described_recipe(name)
        rows = [(f"`{setting}`", _code_lines(value), meaning) for setting, value, meaning in shown.settings]
        parts += [
            f"## {name}",
            _prose(shown.purpose),
            f"```sh\n{shown.command}\n```",
            _table(("setting", "value", "meaning"), rows),
        ]
    return "\n\n".join(parts)


def commands_page() -> str:
    parts = ["# Commands", "What `nearer COMMAND --help` says, for all commands."]
    group: Any = typer.main.get_command(app)
    for names, command, context in _commands(group, "nearer", None):
        usage = " ".join([names, *command.collect_usage_pieces(context)])
        parts += [f"## {names}", _prose(command.help or ""), f"```sh\n{usage}\n```"]
        records = [
            record for parameter in command.get_params(context) if (record := parameter.get_help_record(context))
        ]
        shown = [(f"`{name}`", _prose(meaning)) for name, meaning in records if not name.endswith("--help")]
        parts.append(_table(("argument or option", "meaning"), shown, escaped=True) if shown else "")
    return "\n\n".join(parts)


def python_page() -> str:
    parts = ["# Python", "Classes and functions for programs of your own."]
    shown: set[str] = set()
    for module, heading in PYTHON.items():
        names = [name for name in _public(module) if name not in shown]
        parts += [f"## {heading}", *(f"::: {module}.{name}" for name in names)]
        shown.update(names)
    return "\n\n".join(parts)


def _commands(command: Any, names: str, parent: Any) -> Iterator[tuple[str, Any, Any]]:
    """Every command with its full name, groups before what is in them."""
    context = command.context_class(command, info_name=names.split()[-1], parent=parent)
    if not hasattr(command, "commands"):
        yield names, command, context
        return
    for name, inner in command.commands.items():
        yield from _commands(inner, f"{names} {name}", context)


def _public(module: str) -> list[str]:
    """Names in `__all__`, read without importing: some modules need packages that may not be installed."""
    path = SOURCE.joinpath(*module.split("."))
    file = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    for node in ast.parse(file.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "__all__":
            return [str(name) for name in ast.literal_eval(node.value)]
    raise ValueError(f"{file} has no __all__")


def _purpose(name: str) -> str:
    return described_recipe(name).purpose


def _table(head: tuple[str, ...], rows: list[tuple[str, ...]], escaped: bool = False) -> str:
    lines = [head, tuple("---" for _ in head)]
    lines += rows if escaped else [tuple(_cell(cell) for cell in row) for row in rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _cell(text: str) -> str:
    return text if text.startswith(("`", "[")) else _prose(text)


def _code_lines(value: str) -> str:
    return "<br>".join(f"`{line}`" for line in value.splitlines())


def _prose(text: str) -> str:
    """Text as it stands, whatever Markdown would make of its characters; what is in backticks stays code."""
    pieces = re.split(r"(`[^`]*`)", " ".join(text.split()))
    return "".join(piece if piece.startswith("`") else _escaped(piece) for piece in pieces)


def _escaped(text: str) -> str:
    return re.sub(r"([\\*_\[\]|])", r"\\\1", text).replace("<", "&lt;")
