"""Lists by a real engine on a tiny language model, in this process and over Ray: the same lists."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tiny_language_model import make_language_model

from nearer.construct.engines import load_engine
from nearer.construct.list_growth import CUT_OFF, NO_ROOM, GrownList, ListSettings, grow_lists
from nearer.construct.lists import InProcess, ListsResult, OverRay, _Worker, construct_lists
from nearer.construct.requests import Template
from nearer.construct.start_sentences import GivenStarts
from nearer.errors import InputError, ModelError
from nearer.text import read_sentences

STARTS = [f"the {who} {does}" for who in ("fox", "dog", "man", "rain") for does in ("eats", "comes", "jumps")]


@pytest.fixture(scope="module")
def llm(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_language_model(tmp_path_factory.mktemp("llm") / "tiny")


@pytest.fixture
def source(tmp_path: Path) -> GivenStarts:
    (tmp_path / "starts.txt").write_text("\n".join(STARTS) + "\n")
    return GivenStarts(read_sentences(tmp_path / "starts.txt"))


def settings(**changed: Any) -> ListSettings:
    usual = {
        "method": "directional",
        "steps": 4,
        "minimum_steps": 1,
        "guidance": 0.5,
        "template": "away {sentence} has",
    }
    given = {**usual, **changed}
    return ListSettings(**{**given, "template": Template(given["template"], given["steps"])})


def engine(llm: Path, **changed: Any) -> partial[Any]:
    usual = {"kind": "transformers", "batch": 4, "max_new_tokens": 40, "temperature": 1.0, "seed": 5, "device": "cpu"}
    return partial(load_engine, llm, **{**usual, **changed})


def test_lists_do_not_depend_on_how_many_grow_at_once(llm: Path, source: GivenStarts, tmp_path: Path) -> None:
    def build(batch: int) -> ListsResult:
        workforce = InProcess(engine(llm, batch=batch))
        return construct_lists(source, workforce, settings(), tmp_path / f"d{batch}", seed=5)

    alone, together = build(1), build(5)
    assert alone.data.read_text() == together.data.read_text()
    assert alone.rejected == together.rejected
    assert alone.lists >= 6
    records = [json.loads(line) for line in alone.data.read_text().splitlines()]
    assert len({sentence for record in records for sentence in record["sentences"]}) > 20


def test_the_seed_decides(llm: Path, source: GivenStarts, tmp_path: Path) -> None:
    def build(seed: int) -> str:
        workforce = InProcess(engine(llm, seed=seed))
        return construct_lists(source, workforce, settings(), tmp_path / f"s{seed}", seed=seed).data.read_text()

    assert build(0) != build(1)


def test_a_model_of_no_use_is_quoted(llm: Path, source: GivenStarts, tmp_path: Path) -> None:
    workforce = InProcess(engine(llm, temperature=0.0, max_new_tokens=8))
    with pytest.raises(InputError, match=rf"first 12 lists were rejected \(.*{CUT_OFF} \d.*last answer was '"):
        construct_lists(source, workforce, settings(), tmp_path / "d")


def test_prompts_longer_than_the_window_are_a_reason_of_their_own(
    llm: Path, source: GivenStarts, tmp_path: Path
) -> None:
    long = "again " * 100 + "{sentence}"
    with pytest.raises(InputError, match=NO_ROOM):
        construct_lists(source, InProcess(engine(llm)), settings(template=long), tmp_path / "d")


def test_a_worker_of_ray_grows_its_share(llm: Path, source: GivenStarts) -> None:
    starts = source.choose().members
    share = {name: np.array([getattr(start, name) for start in starts]) for name in ("number", "sentence", "index")}
    grown = [GrownList(**json.loads(line)) for line in _Worker(engine(llm), settings())(share)["grown"]]
    assert sorted(grown, key=lambda found: found.number) == sorted(
        grow_lists(engine(llm)(), starts, settings()), key=lambda found: found.number
    )


@pytest.mark.slow
def test_ray_builds_the_same(llm: Path, source: GivenStarts, tmp_path: Path) -> None:
    ray = pytest.importorskip("ray")
    here = construct_lists(source, InProcess(engine(llm, batch=1)), settings(), tmp_path / "here", seed=5)
    first = construct_lists(source, InProcess(engine(llm, batch=1)), settings(), tmp_path / "ray", seed=5, limit=3)
    with OverRay(engine(llm, batch=1), workers=2, batch=1, gpus=0.0) as workforce:
        there = construct_lists(source, workforce, settings(), tmp_path / "ray", seed=5)  # goes on with what is begun
    assert not ray.is_initialized()
    assert (first.built, there.built) == (3, 9)  # three shares of at most four lists
    assert there.data.read_bytes() == here.data.read_bytes()
    about = [json.loads((tmp_path / name / "about.json").read_text()) for name in ("here", "ray")]
    assert about[0]["about"] == about[1]["about"]
    assert about[0]["result"]["rejected"] == about[1]["result"]["rejected"]


@pytest.mark.slow
def test_a_workers_own_error_comes_through_ray_as_it_is(tmp_path: Path) -> None:
    pytest.importorskip("ray")
    with (
        pytest.raises(ModelError, match="none: no such folder or file"),
        OverRay(engine(tmp_path / "none"), workers=1, batch=4, gpus=0.0) as workforce,
    ):
        workforce.identity()
