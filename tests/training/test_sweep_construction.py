"""Sweeps over settings of construction: what is built, how often, and who learns from it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from nearer.construct.debiased import DebiasedBuilder
from nearer.errors import SettingError
from nearer.runs.config import CONFIG
from nearer.sweeps.construction import plan_construction
from nearer.sweeps.results import SweepResult
from nearer.sweeps.sweep import sweep


@pytest.fixture
def debcse(recipe: Path, tmp_path: Path) -> Path:
    values = yaml.safe_load(recipe.read_text()) | {"method": "debcse", "data": "debiased", "max_steps": 1}
    path = tmp_path / "debcse.yaml"
    path.write_text("# nearer train debcse.yaml\n# For tests.\n" + yaml.safe_dump(values))
    return path


@pytest.fixture
def built(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The folders in which records were sampled."""
    folders: list[Path] = []
    keep = DebiasedBuilder._keep

    def noted(builder: DebiasedBuilder, *arguments: Any) -> None:
        folders.append(builder.building.folder)
        keep(builder, *arguments)

    monkeypatch.setattr(DebiasedBuilder, "_keep", noted)
    return folders


@pytest.fixture
def run(debcse: Path, corpus: Path, tmp_path: Path, tiny_model: Callable[[str], Path]) -> Callable[..., SweepResult]:
    fixed = {"model": str(tiny_model("bert")), "pooling": "mean", "low": -0.9, "high": 0.9999, "limit": 20}

    def run(grid: dict[str, list[Any]], **changed: Any) -> SweepResult:
        settings = {f"construct.{name}": value for name, value in fixed.items() if f"construct.{name}" not in grid}
        settings |= changed.pop("settings", {})
        given = {"recipe": debcse, "corpus": corpus, "out": tmp_path / "sweep", **changed}
        return sweep(grid=grid, settings=settings, **given)

    return run


def test_data_is_built_once_for_each_choice(run: Callable[..., SweepResult], built: list[Path], tmp_path: Path) -> None:
    result = run({"construct.m": [1, 2]}, seeds=(0, 1))
    assert [single.state for single in result.runs] == ["finished"] * 4
    assert len(built) == 2
    for single in result.runs:
        config = yaml.safe_load((single.folder / CONFIG).read_text())
        data = Path(config["corpus"]["source"] if isinstance(config["corpus"], dict) else config["corpus"])
        first = json.loads(data.read_text().splitlines()[0])
        assert len(first["positives"]) == len(first["negatives"]) == single.point["construct.m"]
    assert sorted(path.name for path in (tmp_path / "sweep").glob("construct/*")) == sorted(
        {path.name for path in built}
    )
    again = run({"construct.m": [2, 3], "temperature": [0.05]})
    assert len(built) == 3  # m = 2 is there
    assert [single.state for single in again.runs] == ["finished"] * 2


def test_bounds_of_the_pool(run: Callable[..., SweepResult], built: list[Path]) -> None:
    result = run({"construct.low": [-1, -0.5], "construct.negative_semantic_weight": [1]})
    assert len(built) == 2
    assert result.grid == {"construct.low": [-1.0, -0.5], "construct.negative_semantic_weight": [1.0]}
    headers = [json.loads((folder / "about.json").read_text())["about"] for folder in built]
    assert [(header["low"], header["negative_semantic_weight"]) for header in headers] == [(-1.0, 1.0), (-0.5, 1.0)]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"construct.lo": 0.1}, r"construct\.lo: construction has no such setting\. Did you mean 'construct\.low'"),
        ({"construct.low": "x"}, r"construct\.low: 'x' is not a number"),
        ({"construct.m": 1.5}, r"construct\.m: 1\.5 is not a whole number"),
        ({"construct.m": True}, "is not a whole number"),
        ({"construct.model": 3}, "is not a name"),
        ({"construct.m": 2, "construct.positives": 3}, r"construct\.m: is 2, and construct\.positives is 3"),
        ({"construct.m": 0}, r"construct\.positives: 0 is below 1"),
        ({"construct.limit": 0}, r"construct\.limit: 0 is below 1"),
    ],
)
def test_settings_that_cannot_be_meant(given: dict[str, Any], said: str) -> None:
    with pytest.raises(SettingError, match=said):
        plan_construction({"construct.model": "m", **given})


def test_mistakes_are_told_before_anything_is_built(
    run: Callable[..., SweepResult], recipe: Path, built: list[Path], tmp_path: Path
) -> None:
    with pytest.raises(SettingError, match=r"construct\.model: construction needs a trained encoder"):
        sweep(recipe, "none.txt", {"construct.low": [0.1]})
    with pytest.raises(SettingError, match="learns from sentences; take a recipe of debcse"):
        run({"construct.m": [1]}, recipe=recipe)
    assert not built
