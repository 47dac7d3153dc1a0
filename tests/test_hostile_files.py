"""Recipes, configs and other small files that nobody would write, or only to do harm: one line says what is wrong."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from nearer.errors import InputError, NearerError, SettingError
from nearer.runs.folder import read_run
from nearer.sweeps.grid import parse_grid
from nearer.training.recipes import load_recipe, parse_overrides
from nearer.training.run import resume
from nearer.typed_files import DEEPEST, MOST_NODES, Unreadable, parse_json, parse_yaml, read_json

LAUGHS = "\n".join(["a0: &a0 [x, x]", *(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 30))])
MERGED = "\n".join(["a0: &a0 {x: 1}", *(f"a{n}: &a{n} {{<<: [*a{n - 1}, *a{n - 1}]}}" for n in range(1, 40))])
SIMCSE = {"method": "simcse", "model": "wiki-mini", "pooling": "cls", "head": True}


def told(action: Any) -> str:
    with pytest.raises(NearerError) as caught:
        action()
    [line] = str(caught.value).splitlines()
    return line


class TestYaml:
    @pytest.mark.parametrize("text", [LAUGHS, MERGED])
    def test_aliases_of_aliases(self, text: str, tmp_path: Path) -> None:
        (tmp_path / "config.yaml").write_text(text)
        for action in (load_recipe, lambda path: read_run(path.parent), lambda path: resume(path.parent)):
            line = told(lambda action=action: action(tmp_path / "config.yaml"))
            assert line.startswith(f"{tmp_path / 'config.yaml'}: cannot be read (line ")
            assert f"more than {MOST_NODES:,} values" in line

    def test_aliases_in_options(self) -> None:
        value = "{a: &a [1, 1, 1, 1, 1, 1, 1, 1, 1], " + ", ".join(
            f"{two}: &{two} [{', '.join([f'*{one}'] * 9)}]" for one, two in zip("abcdefgh", "bcdefghi", strict=True)
        )
        assert "--set: the value of 'x'" in told(lambda: parse_overrides([f"x={value}}}"]))
        assert "--grid: the values of 'x'" in told(lambda: parse_grid([f"x={value}}}"]))

    def test_one_that_stands_for_itself(self) -> None:
        with pytest.raises(Unreadable, match=r"line 1: the alias \*a stands for nothing"):
            parse_yaml("a: &a [*a]")

    def test_aliases_that_people_write(self) -> None:
        text = "a: &a {x: 1, y: [2]}\nb: *a\nc: {<<: *a, x: 3}"
        assert parse_yaml(text)["c"] == {"x": 3, "y": [2]}

    @pytest.mark.parametrize("text", ["[" * 5000, "{a: " * 5000, "- " * 5000 + "x"])
    def test_nests(self, text: str, tmp_path: Path) -> None:
        (tmp_path / "a.yaml").write_text(text)
        assert f"more than {DEEPEST} deep" in told(lambda: load_recipe(tmp_path / "a.yaml"))

    @pytest.mark.parametrize("number", ["9" * 5000, "0x" + "f" * 5000, "-" + "1" * 200, ":".join(["59"] * 300)])
    def test_numbers_of_thousands_of_digits(self, number: str, tmp_path: Path) -> None:
        (tmp_path / "a.yaml").write_text(yaml.safe_dump(SIMCSE) + f"seed: {number}\n")
        line = told(lambda: load_recipe(tmp_path / "a.yaml"))
        assert line.startswith(f"{tmp_path / 'a.yaml'}: cannot be read (")
        assert "digits" in line
        assert "--set: the value of 'seed' cannot be read (" in told(lambda: parse_overrides([f"seed={number}"]))

    @pytest.mark.parametrize("value", ["2001-99-99", "!!int x", "!!int ''", "!!timestamp x", "!!bool x", "? [a] : b"])
    def test_values_that_are_none(self, value: str, tmp_path: Path) -> None:
        (tmp_path / "a.yaml").write_text(f"seed: {value}\n")
        assert "cannot be read (not YAML: " in told(lambda: load_recipe(tmp_path / "a.yaml"))

    def test_a_file_that_is_too_large(self, tmp_path: Path) -> None:
        (tmp_path / "a.yaml").write_text("# " + "x" * 2**20)
        assert "more than the 1,048,576 that such a file may have" in told(lambda: load_recipe(tmp_path / "a.yaml"))


class TestRecipes:
    @pytest.mark.parametrize(
        ("setting", "value", "said"),
        [
            ("method", ["x"], "method: ['x'] is not one of"),
            ("method", {"x": 1}, "method: {'x': 1} is not one of"),
            ("learning_rate", float("inf"), "learning_rate: "),
            ("learning_rate", float("nan"), "learning_rate: "),
            ("temperature", float("inf"), "temperature: "),
            ("select_on", 5, "select_on: Input should be a valid list (5 given)"),
            ("select_on", [5], "select_on.0: Input should be a valid string (5 given)"),
            ("seed", [[[]]], "seed: "),
            ("model", {}, "model: "),
        ],
    )
    def test_values_of_the_wrong_kind(self, setting: str, value: object, said: str, tmp_path: Path) -> None:
        (tmp_path / "a.yaml").write_text(yaml.safe_dump({**SIMCSE, setting: value}))
        assert f"a: {said}" in told(lambda: load_recipe(tmp_path / "a.yaml"))

    @pytest.mark.parametrize(
        ("field", "value"),
        [("recipe", 5), ("settings", []), ("corpus", ["x"]), ("columns", "x"), ("data", 5), ("reading", [1])],
    )
    def test_the_config_of_a_run(self, field: str, value: object, tmp_path: Path) -> None:
        config = {"recipe": "a", "settings": SIMCSE, "corpus": "no.txt", "columns": None, "reading": {}, field: value}
        (tmp_path / "config.yaml").write_text(yaml.safe_dump(config))
        assert told(lambda: resume(tmp_path)).startswith(f"{tmp_path / 'config.yaml'}: {field}: ")

    def test_a_config_that_is_a_list(self, tmp_path: Path) -> None:
        (tmp_path / "config.yaml").write_text("[1, 2]")
        for action in (resume, read_run):
            assert told(lambda action=action: action(tmp_path)).startswith(f"{tmp_path / 'config.yaml'}: ")


class TestJson:
    @pytest.mark.parametrize("text", ["[" * 100_000, '{"a":' * 100_000, "[" * 60 + "]" * 60])
    def test_nests(self, text: str) -> None:
        with pytest.raises(Unreadable):
            parse_json(text)

    def test_numbers_of_thousands_of_digits(self) -> None:
        with pytest.raises(Unreadable, match="a number of 5,000 digits, more than 100"):
            parse_json("9" * 5000)
        assert parse_json("9" * 100) == 10**100 - 1

    def test_what_is_asked_for(self, tmp_path: Path) -> None:
        path = tmp_path / "a.json"
        path.write_text(json.dumps({"a": [1, "x"]}))
        assert read_json(path, dict[str, Any]) == {"a": [1, "x"]}
        with pytest.raises(InputError, match=r"a.json: a.1: Input should be a valid integer.*\('x' given\); mend it\."):
            read_json(path, dict[str, list[int]], mend="mend it")
        with pytest.raises(SettingError, match=r"a.json: Input should be a valid list"):
            read_json(path, list[int], error=SettingError)

    def test_what_is_no_text(self, tmp_path: Path) -> None:
        (tmp_path / "a.json").write_bytes(b"\xff\xfe{")
        assert "a.json: cannot be read (" in told(lambda: read_json(tmp_path / "a.json", dict[str, Any]))
        assert "a.json: is missing" in told(lambda: read_json(tmp_path / "no" / "a.json", dict[str, Any]))
