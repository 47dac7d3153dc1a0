"""Commands that say what can be set: recipes, settings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer
from rich.table import Table

from nearer.cli import completion
from nearer.cli.output import put, show_table


def recipes(
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="NAME",
            help="Show this recipe in full: a name from the list, or a YAML file of your own.",
            autocompletion=completion.recipes,
        ),
    ] = None,
) -> None:
    """List the recipes, or show one: what it is for, its command, and every setting with its meaning."""
    from nearer.training.recipes import recipe_names, summary

    if name is not None:
        _show_recipe(name)
        return
    for each in recipe_names():
        put(f"{each}\n    {summary(each)}")
    put("\nnearer recipes NAME shows one with its settings.")


def settings(
    method: Annotated[
        str | None,
        typer.Argument(
            metavar="METHOD",
            help=f"{', '.join(completion.METHODS)}. Default: all of them.",
            autocompletion=completion.methods,
        ),
    ] = None,
) -> None:
    """List every setting of a recipe with its type, default and meaning. `nearer train … --set NAME=VALUE` sets it."""
    from nearer.training.recipes import settings_of

    for heading, rows in settings_of(method).items():
        cells = [(row.name, row.kind, row.default, row.description) for row in rows]
        _print_table(f"Settings of {heading}", ("setting", "type", "default", "meaning"), cells)
        put()


def _show_recipe(name: str) -> None:
    from nearer.training.recipes import described_recipe, method_in_words

    shown = described_recipe(name)
    training = shown.recipe.training
    facts = {
        "for": shown.purpose,
        "command": shown.command,
        "method": f"{shown.method} ({method_in_words(shown.method).rstrip('.')})",
        "model": training.model,
        "learns from": training.data,
    }
    put(shown.recipe.name)
    for label, fact in facts.items():
        put(f"  {label:<12}{fact}")
    put()
    _print_table("Settings of this recipe", ("setting", "value", "meaning"), shown.settings)
    put(f"\nAll other settings keep their defaults: nearer settings {shown.method}")


def _print_table(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    table = Table(title=title, title_justify="left")
    for number, column in enumerate(columns):
        table.add_column(column, no_wrap=not number, overflow="fold")
    for row in rows:
        table.add_row(*row)
    show_table(table)
