"""Bundles of options: one parameter of a command that stands for several options."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import pytest
import typer
from typer.testing import CliRunner

from nearer.cli.bundles import Loading, TextReading, check_json_file, check_new_model, with_bundles
from nearer.errors import InputError, ModelError


@dataclass(frozen=True)
class Shown:
    top: Annotated[int, typer.Option(min=1, help="How many.")] = 3
    whole: Annotated[bool, typer.Option("--whole", help="Whole texts.")] = False


SHOWN = Shown()
given: list[tuple[str, Shown, int]] = []


@with_bundles
def command(
    name: Annotated[str, typer.Argument()],
    shown: Shown = SHOWN,
    seed: Annotated[int, typer.Option()] = 0,
) -> None:
    """A command."""
    given.append((name, shown, seed))


@pytest.fixture
def app() -> typer.Typer:
    made = typer.Typer()
    made.command()(command)
    given.clear()
    return made


def test_the_command_gets_its_options_as_one(app: typer.Typer) -> None:
    assert CliRunner().invoke(app, ["x", "--top", "5", "--whole", "--seed", "7"]).exit_code == 0
    assert given == [("x", Shown(5, True), 7)]


def test_defaults_are_those_of_the_bundle(app: typer.Typer) -> None:
    assert CliRunner().invoke(app, ["x"]).exit_code == 0
    assert given == [("x", Shown(3, False), 0)]


def test_an_option_of_the_bundle_is_checked(app: typer.Typer) -> None:
    assert CliRunner().invoke(app, ["x", "--top", "0"]).exit_code == 2
    assert given == []


def test_options_stand_where_the_bundle_stands() -> None:
    names = [parameter.name for parameter in typer.main.get_command(_app()).params]
    assert names[:4] == ["name", "top", "whole", "seed"]
    assert command.__doc__ == "A command."


def _app() -> typer.Typer:
    made = typer.Typer(add_completion=False)
    made.command()(command)
    return made


def test_arguments_of_loading_and_reading() -> None:
    loading = Loading(pooling="mean", device="cpu")
    assert loading.arguments(device="cuda", precision="bf16") == {
        "pooling": "mean",
        "max_length": None,
        "text_normalisation": None,
        "template": None,
        "pooler_as_head": False,
        "device": "cuda",
        "trust_remote_code": False,
        "allow_pickle": False,
        "precision": "bf16",
    }
    assert TextReading(columns="a, b").arguments()["columns"] == ("a", "b")


def test_what_can_be_wrong_with_paths(tmp_path: Path) -> None:
    check_new_model(tmp_path / "new")
    check_json_file(None)
    check_json_file(tmp_path / "scores.json")
    with pytest.raises(ModelError, match="is there already"):
        check_new_model(tmp_path)
    with pytest.raises(InputError, match="does not exist"):
        check_json_file(tmp_path / "none" / "scores.json")
