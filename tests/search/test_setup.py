"""A set-up stands in a model's folder, which stays a model; bad values are named."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from nearer import Encoder, SearchSetup
from nearer.errors import ModelError
from nearer.search.setup import RerankerSetup, read_setup, write_setup
from nearer.storage.checksums import all_damage


@pytest.fixture
def model(tiny_model: Callable[[str], Path], tmp_path: Path) -> Path:
    Encoder.load(tiny_model("bert"), pooling="mean", device="cpu").save(tmp_path / "model")
    return tmp_path / "model"


def put(model: Path, search: Any) -> None:
    notes = json.loads((model / "nearer.json").read_text())
    (model / "nearer.json").write_text(json.dumps({**notes, "search": search}))
    (model / "checksums.json").unlink()


def test_it_is_read_as_it_was_written(model: Path) -> None:
    assert read_setup(model) is None
    setup = SearchSetup(lexical_weight=0.5, reranker=RerankerSetup(model="some/cross-encoder"), candidates=30)
    write_setup(model, setup)
    assert read_setup(model) == setup
    write_setup(model, SearchSetup(query_prompt="query"))
    assert read_setup(model) == SearchSetup(query_prompt="query")


def test_the_model_stays_a_model(model: Path) -> None:
    before = Encoder.load(model, device="cpu").encode("rain")
    write_setup(model, SearchSetup(lexical_weight=1))
    assert list(all_damage(model)) == []
    assert "nearer.json" in json.loads((model / "checksums.json").read_text())["files"]
    assert (Encoder.load(model, device="cpu").encode("rain") == before).all()


def test_a_reranker_in_the_folder_is_found_from_anywhere(model: Path) -> None:
    write_setup(model, SearchSetup(reranker=RerankerSetup(model="reranker/", weight=2)))
    with pytest.raises(ModelError, match=r"search.reranker.model: .*reranker is not there"):
        read_setup(model)
    (model / "reranker").mkdir()
    setup = read_setup(model)
    assert setup is not None
    assert setup.reranker is not None
    assert (setup.reranker.model, setup.reranker.weight) == (str(model.resolve() / "reranker"), 2)


def test_weights_by_judge() -> None:
    assert SearchSetup().is_plain
    assert SearchSetup().weights == {"vectors": 1, "lexical": 0}
    setup = SearchSetup(lexical_weight=2, reranker=RerankerSetup(model="a/b", weight=0.5))
    assert not setup.is_plain
    assert setup.weights == {"vectors": 1, "lexical": 2, "reranker": 0.5}
    assert setup.describe() == "vectors + 2 × BM25 + 0.5 × a/b on the best 100"


@pytest.mark.parametrize(
    ("search", "told"),
    [
        ({"lexical_weight": -1}, r"search: lexical_weight: .*greater than or equal to 0 \(-1 given\)"),
        ({"lexical_weight": "much"}, r"lexical_weight: .*number.*\('much' given\)"),
        ({"lexical_weight": float("nan")}, "lexical_weight: .*finite"),
        ({"weight": 1}, "weight: Extra inputs"),
        ({"candidates": 0}, "candidates: .*greater than or equal to 1"),
        ({"reranker": {"weight": 1}}, "reranker.model: Field required"),
        ({"reranker": {"model": "a", "weight": 0}}, "reranker.weight: .*greater than 0"),
        ({"reranker": {"model": "../../other"}}, "reranker.model: '../../other' leads out of the model's folder"),
        ([1], "SearchSetup"),
    ],
)
def test_bad_values_are_named(search: Any, told: str, model: Path) -> None:
    put(model, search)
    with pytest.raises(ModelError, match=told) as caught:
        read_setup(model)
    assert "nearer.json" in str(caught.value)
    assert "mend the value" in str(caught.value)
    assert "\n" not in str(caught.value)
