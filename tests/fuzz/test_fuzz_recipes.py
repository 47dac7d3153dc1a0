"""Recipes, settings of the command line, and the files of runs: read, or refused in words."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from mutations import ODD, damaged_bytes, swapped_values, tries

from nearer.errors import NearerError
from nearer.runs.folder import read_run
from nearer.sweeps.grid import parse_grid, plan_runs
from nearer.training.recipes import FOLDER, load_recipe, parse_overrides
from nearer.training.run import resume

RECIPES = {path.stem: path.read_bytes() for path in sorted(FOLDER.glob("*.yaml"))}
CONFIG = {
    "recipe": "tiny",
    "settings": yaml.safe_load(RECIPES["simcse-bert-base"]),
    "corpus": "no/such/corpus.txt",
    "columns": ["0"],
    "reading": {"encoding": "utf-8"},
    "data": None,
    "libraries": {"torch": "2.13"},
    "numerics": {"threads": 1},
}
NOTES = {
    "format": 1,
    "provenance": {"records": 5, "dropped": 1, "seconds": 1.5, "best_step": 2, "held_out": {"records": 1, "asks": "x"}},
}
SCORES = {
    "scores": [
        {
            "task": "t",
            "kind": "sts",
            "split": "dev",
            "layout": "flat",
            "count": 3,
            "unit": "pairs",
            "measure": "spearman",
            "figures": {"spearman": 1.0},
            "data_hash": "0",
            "protocol": {},
        }
    ],
    "protocol": {"precision": "float32"},
}
METRICS = b'{"step": 1, "loss": 0.5}\n{"step": 2, "dev": 50.0, "uniformity": -1.0}\n'
# characters of which YAML makes something
YAML_TEXT = st.text(st.sampled_from("ab:-[]{}&*!|>%@`'\"#?, \n\t0123456789._~<=\\\x00\u2028é"), max_size=40)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("fuzz-recipes")


def as_yaml(value: Any) -> bytes:
    return yaml.safe_dump(value, allow_unicode=True).encode()


@tries(120)
@given(draw=st.data())
def test_recipes(place: Path, bounded: Any, draw: st.DataObject) -> None:
    data = RECIPES[draw.draw(st.sampled_from(sorted(RECIPES)))]
    if draw.draw(st.booleans()):
        data = draw.draw(damaged_bytes(data))
    else:
        data = as_yaml(draw.draw(swapped_values(yaml.safe_load(data))))
    path = place / "a.yaml"
    path.write_bytes(data)
    with bounded(), suppress(NearerError):
        load_recipe(path)


@tries(150)
@given(key=st.sampled_from(["seed", "learning_rate", "select_on", "teachers", "method", "x"]), value=YAML_TEXT)
def test_settings_of_the_command_line(key: str, value: str, bounded: Any) -> None:
    with bounded():
        with suppress(NearerError):
            load_recipe("rankcse-listmle-bert-base", parse_overrides([f"{key}={value}"]))
        with suppress(NearerError):
            plan_runs("simcse-bert-base", parse_grid([f"{key}={value}"]), [0], {})


@tries(60)
@given(key=st.sampled_from(sorted(yaml.safe_load(RECIPES["rankcse-listmle-bert-base"]))), odd=st.sampled_from(ODD))
def test_settings_of_python(key: str, odd: Any) -> None:
    with suppress(NearerError):
        load_recipe("rankcse-listmle-bert-base", {key: odd})


@tries(60)
@given(draw=st.data())
def test_configs_of_runs(place: Path, bounded: Any, draw: st.DataObject) -> None:
    """A corpus that is not there ends what is right so far."""
    folder = place / "run"
    folder.mkdir(exist_ok=True)
    data = as_yaml(CONFIG)
    wrong = draw.draw(damaged_bytes(data)) if draw.draw(st.booleans()) else as_yaml(draw.draw(swapped_values(CONFIG)))
    (folder / "config.yaml").write_bytes(wrong)
    with bounded(), pytest.raises(NearerError):
        resume(folder)


@tries(80)
@given(draw=st.data())
def test_files_of_a_report(place: Path, bounded: Any, draw: st.DataObject) -> None:
    folder = place / "reported"
    (folder / "model").mkdir(parents=True, exist_ok=True)
    files = {
        "config.yaml": (CONFIG, as_yaml),
        "scores.json": (SCORES, lambda value: json.dumps(value).encode()),
        "model/nearer.json": (NOTES, lambda value: json.dumps(value).encode()),
    }
    for name, (value, form) in files.items():
        (folder / name).write_bytes(form(value))
    (folder / "metrics.jsonl").write_bytes(METRICS)
    chosen = draw.draw(st.sampled_from([*files, "metrics.jsonl"]))
    if chosen == "metrics.jsonl":
        (folder / chosen).write_bytes(draw.draw(damaged_bytes(METRICS)))
    else:
        value, form = files[chosen]
        wrong = draw.draw(st.booleans())
        (folder / chosen).write_bytes(
            draw.draw(damaged_bytes(form(value))) if wrong else form(draw.draw(swapped_values(value)))
        )
    with bounded(), suppress(NearerError):
        read_run(folder)
