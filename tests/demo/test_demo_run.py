"""The demo from end to end on two small packages; its last search and its examples."""

from __future__ import annotations

import email
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console

import nearer
from nearer.adaptation import adapt as stages
from nearer.adaptation.plan import Plan
from nearer.demo import run as module
from nearer.demo.docstrings import Docstring, SourceReport, read_docstrings
from nearer.demo.held_out import SummarySearch
from nearer.demo.run import SetUp, compare_set_ups, measure, search_examples, searches_table
from nearer.errors import InputError, SettingError
from nearer.evaluation.retrieval_task import retrieve

PLAN = Plan(150, 30, 3, False, 40, 20, 4, 2, 32, {"tests": 1.0})  # for a test, whatever this machine's speed is


def few_docstrings(*, per_package: int, progress: bool) -> tuple[list[Docstring], SourceReport]:
    folders = [Path(email.__file__).parent, Path(logging.__file__).parent]
    return read_docstrings(folders, per_package=per_package, progress=progress)


def test_it_shows_before_and_after_and_leaves_a_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tiny_model: Callable[[str], Path]
) -> None:
    nearer.Encoder.load(tiny_model("bert"), pooling="mean", device="cpu").save(tmp_path / "tiny")
    monkeypatch.setattr(module, "BASE", str(tmp_path / "tiny"))
    monkeypatch.setattr(module, "HELD_OUT", 20)
    monkeypatch.setattr(module, "read_docstrings", few_docstrings)
    monkeypatch.setattr(stages, "make_plan", lambda *given, **more: PLAN)
    console = Console(record=True, width=160)
    module.run_demo(tmp_path / "demo", budget="1min", seed=0, show=console.print, progress=False)
    printed = console.export_text()
    for expected in (
        "about 2 min",
        "20 functions held out",
        "tiny, as it is",
        "adapted (",
        "95 % interval",
        "model:",
    ):
        assert expected in printed
    assert (tmp_path / "demo" / "adapted" / "model" / "nearer.json").exists()
    assert (tmp_path / "demo" / "adapted" / "report.html").exists()


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="cannot be written"):
        module.run_demo(tmp_path / "file" / "demo", budget="1min", seed=0, show=lambda _: None, progress=False)


def test_a_folder_of_somebody_elses_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("years of work")
    with pytest.raises(InputError, match="is not an earlier demo's"):
        module.run_demo(tmp_path, budget="1min", seed=0, show=lambda _: None, progress=False)
    with pytest.raises(SettingError, match="budget"):
        module.run_demo(tmp_path, budget="soon", seed=0, show=lambda _: None, progress=False)
    assert (tmp_path / "thesis.txt").read_text() == "years of work"


QUERIES = ["Sort the list.", "Read a file.", "Close the door.", "Paint the fence."]
ANSWERS = [
    "The items are put in order.",
    "Lines come one by one.",
    "It is shut until morning.",
    "[bold] green or white",
]


class TestMeasures:
    @pytest.fixture(scope="class")
    def encoder(self) -> Any:
        return nearer.Encoder.load("wiki-mini", device="cpu")

    def test_the_encoder_alone_is_retrieval(self, encoder: Any) -> None:
        found = measure(SetUp(encoder), SummarySearch(QUERIES, ANSWERS))
        expected = retrieve(encoder, QUERIES, ANSWERS, [0, 1, 2, 3])
        at_first = float(np.mean(found == 1.0))
        assert at_first == pytest.approx(expected.recall_at_1)

    def test_words_count_with_their_weight(self, encoder: Any) -> None:
        search = SummarySearch(["zebra", "quagga"], ["an okapi and a quagga", "an okapi and a zebra"])
        assert measure(SetUp(encoder, 1000.0), search).tolist() == pytest.approx([1 / np.log2(3)] * 2)
        assert measure(SetUp(encoder, 1000.0), SummarySearch(search.queries, search.answers[::-1])).tolist() == [1, 1]

    def test_the_table_has_a_difference_to_the_first_with_its_interval(self, encoder: Any) -> None:
        console = Console(record=True, width=120)
        set_ups = {"alone": SetUp(encoder), "the same": SetUp(encoder)}
        console.print(compare_set_ups(set_ups, SummarySearch(QUERIES, ANSWERS)))
        assert "+0.0" in console.export_text()

    def test_both_are_shown_with_brackets_as_they_are(self, encoder: Any) -> None:
        texts = ["A zebra.", "[bold] A horse.", "A pony."]
        [found] = search_examples(SetUp(encoder), SetUp(encoder, 1000.0), texts, queries=["zebra"], top=2)
        assert found.after[0][0] == "A zebra."
        assert len(found.before) == len(found.after) == 2
        console = Console(record=True, width=100)
        console.print(searches_table([found._replace(after=[("[bold] A horse.", 1.0)])]))
        assert "[bold] A horse." in console.export_text()
