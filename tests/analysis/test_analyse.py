"""All of it for one model and for several: each sentence once, JSON without NaN, tables and figures."""

from __future__ import annotations

import io
import json
import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console, RenderableType

from nearer.analysis import Analysis, analyse, encode_tasks, side_by_side, write_analyses
from nearer.analysis.plots import gallery
from nearer.analysis.side_by_side import examples_table, short_labels
from nearer.errors import InputError
from nearer.evaluation import PairTask, evaluate
from nearer.text import Pair

CORPUS = [
    f"the {animal} {verb} {place}"
    for animal in ("fox", "dog", "man")
    for verb in ("eats", "sleeps", "jumps")
    for place in ("here", "there", "away")
]
SUBJECTS = (
    "alignment-uniformity",
    "spectrum",
    "distributions",
    "length",
    "overlap",
    "frequency",
    "ratings",
    "rank-space",
    "gain",
)


def shown(table: RenderableType) -> str:
    written = io.StringIO()
    Console(width=200, markup=False, file=written).print(table)
    return written.getvalue()


@pytest.fixture
def tasks(make_task: Callable[..., PairTask]) -> list[PairTask]:
    """Two that share some sentences."""
    one = make_task(60, 0, "one")
    return [one, PairTask("two", "dev", "file", {"two": [*one.pairs[:30], *make_task(20, 1).pairs]})]


@pytest.fixture
def found(table_model: type, tasks: list[PairTask]) -> Analysis:
    return analyse(table_model(), tasks, corpus=CORPUS, neighbours=5)


def test_each_sentence_is_encoded_once(table_model: type, tasks: list[PairTask]) -> None:
    model = table_model()
    analyse(model, tasks)
    assert len(model.encoded) == len(set(model.encoded))
    assert set(model.encoded) == {sentence for task in tasks for pair in task.pairs for sentence in pair[:2]}


def test_scores_are_those_of_an_evaluation(table_model: type, tasks: list[PairTask], found: Analysis) -> None:
    results = evaluate(table_model(), tasks)
    assert [task.score for task in found.tasks] == pytest.approx([score.score for score in results.scores])
    assert [task.shown for task in found.tasks] == ["one", "two dev"]


def test_all_of_it_is_json_and_holds_what_was_found(found: Analysis, tmp_path: Path) -> None:
    compared = side_by_side([found])
    write_analyses([found], tmp_path / "analysis.json", compared=[common.to_dict() for common in compared])
    read = json.loads((tmp_path / "analysis.json").read_text(), parse_constant=lambda name: pytest.fail(name))
    first = read["models"][0]["tasks"][0]
    assert first["geometry"]["uniformity"] == found.tasks[0].geometry.uniformity
    assert first["pairs"] == 60
    assert first["rank_space"]["ranks"]["uniformity"] == found.tasks[0].rank_space.ranks.uniformity
    assert len(first["distributions"]["groups"]) == 5
    assert read["models"][0]["protocol"]["pooling"] == "mean"
    assert read["compared"][0]["points"][0]["alignment"] == first["geometry"]["alignment"]


def test_without_a_corpus_there_is_no_rank_space(table_model: type, tasks: list[PairTask]) -> None:
    found = analyse(table_model(), tasks[0])
    assert (found.tasks[0].rank_space, found.tasks[0].gain, found.tasks[0].rank_scores) == (None, None, ())
    assert found.to_dict()["tasks"][0]["rank_space"] is None


def test_word_frequencies_are_the_corpus_where_there_is_one(
    table_model: type, tasks: list[PairTask], found: Analysis
) -> None:
    assert found.tasks[0].frequency != analyse(table_model(), tasks).tasks[0].frequency


def test_the_table_has_every_task_and_what_must_be_said(found: Analysis) -> None:
    text = shown(found.table())
    assert "two dev" in text
    assert f"{found.tasks[0].geometry.alignment:.2f}" in text
    assert "one: vectors → rank vectors over 27 sentences: score" in text


class TestOddTasks:
    def task(self, *golds: float) -> PairTask:
        rows = [Pair(f"first {place}", f"second {'x ' * place}", gold) for place, gold in enumerate(golds)]
        return PairTask("odd", "file", "file", {"odd": rows})

    def test_no_positives_are_told_unless_a_threshold_was_asked_for(self, table_model: type) -> None:
        [found] = analyse(table_model(), self.task(0, 1, 2, 3)).tasks
        assert found.geometry.alignment is None
        assert found.remarks == ("alignment undefined: no pair is scored above 4",)
        with pytest.raises(InputError, match=r"no pair is scored above 3\.5, the highest gold score is 3; set a lower"):
            analyse(table_model(), self.task(0, 1, 2, 3), threshold=3.5)

    def test_a_scale_from_0_to_1_has_its_own_threshold(self, table_model: type) -> None:
        [found] = analyse(table_model(), self.task(0, 0.3, 0.85, 1)).tasks
        assert (found.geometry.threshold, found.geometry.positives) == (pytest.approx(0.8), 2)

    def test_equal_gold_scores_are_refused_before_anything_is_encoded(self, table_model: type) -> None:
        model = table_model()
        with pytest.raises(InputError, match="odd: all gold scores are 3, there is no order; name another task"):
            analyse(model, self.task(3, 3, 3))
        assert model.encoded == []

    def test_a_collapsed_model_is_analysed_all_the_same(self, table_model: type) -> None:
        task = self.task(0, 1, 4.5, 5, 2)
        texts = [*CORPUS, *(sentence for pair in task.pairs for sentence in pair[:2])]
        model = table_model(table={text: [3.0, 4.0] for text in texts})
        found = analyse(model, task, corpus=CORPUS, neighbours=5)
        [of_task] = found.tasks
        assert of_task.score is None
        assert of_task.geometry.uniformity == pytest.approx(0, abs=1e-6)
        assert of_task.geometry.effective_rank == pytest.approx(1)
        assert of_task.remarks == ("score undefined: all similarities are equal",)
        json.dumps(found.to_dict(), allow_nan=False)
        assert gallery([found], side_by_side([found]))
        assert "–" in shown(found.table())

    def test_vectors_of_zeros_are_counted(self, table_model: type) -> None:
        task = self.task(0, 1, 4.5, 5)
        table = {sentence: [1.0, place] for place, pair in enumerate(task.pairs) for sentence in pair[:2]}
        table["first 0"] = [0.0, 0.0]
        [found] = analyse(table_model(table=table), task).tasks
        assert found.remarks == ("1 of 8 vectors are zero: orthogonal to all",)

    def test_broken_vectors_are_refused_by_name(self, table_model: type) -> None:
        task = self.task(0, 1, 4.5, 5)
        table = {sentence: [1.0, place] for place, pair in enumerate(task.pairs) for sentence in pair[:2]}
        table["first 1"] = [math.nan, 0.0]
        with pytest.raises(
            InputError, match=r"table 0: 1 of 8 sentences get .* \(the first: 'first 1'\); load another"
        ):
            analyse(table_model(table=table), task)

    def test_corpora_that_are_too_small(self, table_model: type) -> None:
        with pytest.raises(
            InputError, match="corpus: 0 different sentences, 100 are needed; give more text or ask for"
        ):
            analyse(table_model(), self.task(0, 5), corpus=[])
        with pytest.raises(InputError, match="corpus: 1 different sentences, 2 are needed"):
            analyse(table_model(), self.task(0, 5), corpus=["a", "a"], neighbours=1)
        with pytest.raises(InputError, match="no tasks given"):
            analyse(table_model(), [])


class TestSideBySide:
    def test_points_scores_and_examples_of_all_models(
        self, table_model: type, make_task: Callable[..., PairTask]
    ) -> None:
        partners = [Pair("the query", f"partner {place}", float(place)) for place in range(6)]
        task = PairTask("own", "file", "file", {"own": [*make_task().pairs, *partners]})
        analyses = [analyse(table_model(seed), task) for seed in (0, 1)]
        [common] = side_by_side(analyses, examples=50)
        assert [point.label for point in common.points] == ["table 0", "table 1"]
        assert [point.uniformity for point in common.points] == [a.tasks[0].geometry.uniformity for a in analyses]
        assert list(common.rating_scores[0].scores) == ["table 0", "table 1"]
        assert "the query" in [example.query for example in common.examples]
        assert common.remark == ""
        text = shown(examples_table(common.examples))
        assert "query: the query" in text
        assert "5.00 (1)" in text

    def test_no_queries_are_said_and_no_error(self, table_model: type, make_task: Callable[..., PairTask]) -> None:
        pairs = [Pair(f"a {place}", f"b {place}", float(place % 6)) for place in range(12)]
        [common] = side_by_side([analyse(table_model(), PairTask("own", "file", "file", {"own": pairs}))])
        assert common.examples == ()
        assert "no sentence has more than 3 partners" in common.remark

    def test_other_tasks_are_refused(self, table_model: type, tasks: list[PairTask]) -> None:
        one, two = analyse(table_model(0), tasks[0]), analyse(table_model(1), tasks[1])
        with pytest.raises(InputError, match="table 1: two is not the task that table 0 was given"):
            side_by_side([one, two])
        with pytest.raises(InputError, match="table 1: 2 tasks"):
            side_by_side([one, analyse(table_model(1), tasks)])
        with pytest.raises(InputError, match="none given"):
            side_by_side([])

    @pytest.mark.parametrize(
        ("names", "labels"),
        [
            (["wiki-mini", "/models/all-MiniLM"], ["wiki-mini", "all-MiniLM"]),
            (["runs/a/model", "runs/b/model"], ["a/model", "b/model"]),
            (["runs/a/model"], ["a/model"]),
            (["model"], ["model"]),
            (["same", "same"], ["same #1", "same #2"]),
            (["x/a", "y/a", "b"], ["x/a", "y/a", "b"]),
        ],
    )
    def test_labels_are_as_short_as_they_can_be(self, names: list[str], labels: list[str]) -> None:
        assert short_labels(names) == labels


def test_the_gallery_has_a_figure_for_each_subject_and_a_panel_for_each_model(
    table_model: type, tasks: list[PairTask]
) -> None:
    analyses = [analyse(table_model(seed), tasks, corpus=CORPUS, neighbours=5) for seed in (0, 1)]
    figures = gallery(analyses, side_by_side(analyses))
    assert list(figures) == [f"{task}-{subject}" for task in ("one", "two-dev") for subject in SUBJECTS]
    assert len(figures["one-distributions"].axes) == 2
    assert len(figures["one-spectrum"].axes[0].lines) == 2
    assert "table 1" in figures["one-length"].axes[1].get_title()
    assert figures["two-dev-length"].get_suptitle() == "two dev: similarity by length difference"


def test_encoding_keeps_the_models_own_similarity(table_model: type, make_task: Callable[..., PairTask]) -> None:
    class Backwards(table_model):  # type: ignore[misc]
        def pair_scores(self, first: np.ndarray, second: np.ndarray) -> np.ndarray:
            return -super().pair_scores(first, second)

    [plain], [turned] = (encode_tasks(kind(), [make_task()]) for kind in (table_model, Backwards))
    np.testing.assert_array_equal(turned.similarities, -plain.similarities)
    for encoded in (plain, turned):
        assert [encoded.sentences[place] for place in encoded.first] == [pair.first for pair in encoded.pairs]
        assert [encoded.sentences[place] for place in encoded.second] == [pair.second for pair in encoded.pairs]
