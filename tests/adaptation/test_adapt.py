"""Adapt from end to end with tiny models: trains, chooses, writes what search takes; goes on; and bad input."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from test_made_tests import passage
from typer.testing import CliRunner

import nearer
from nearer.adaptation import adapt as arguments
from nearer.adaptation import stages, students, workforce
from nearer.adaptation.adapt import adapt
from nearer.adaptation.models import name_teachers
from nearer.adaptation.outcome import Outcome, tell_labels
from nearer.adaptation.plan import Plan, make_plan, settle
from nearer.adaptation.speeds import Speeds
from nearer.cli.main import app
from nearer.errors import InputError, ModelError, PoolingError, SettingError
from nearer.runs.folder import read_run
from nearer.search.setup import read_setup
from nearer.teachers import VectorStore
from nearer.teachers.missing_sentences import MissingSentences

PLAN = Plan(150, 30, 3, True, 40, 20, 4, 2, 32, {"tests": 1.0}, labelled=60)


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """A plan for a test, whatever this machine's speed is."""
    monkeypatch.setattr(arguments, "make_plan", lambda *given, **more: PLAN)


@pytest.mark.usefixtures("small")
def test_documents_in_and_a_set_up_out(documents: Path, models: dict[str, Any], tmp_path: Path) -> None:
    told: list[str] = []
    log = ["who repairs the kettle", "where was the storm"]
    teacher = models["model"]
    out = tmp_path / "out"
    outcome = adapt(documents, out, **models, teachers=[teacher], queries=log, say=told.append)
    assert isinstance(outcome, Outcome)
    assert any("150 documents" in line for line in told)
    assert any(line.startswith("judges to trust") for line in told)
    # the set-up is found, and the encoder loads alone
    setup = read_setup(outcome.model)
    assert setup is not None
    assert setup.lexical_weight == outcome.chosen.contender.lexical
    assert (setup.reranker is not None) == bool(outcome.chosen.contender.reranker)
    assert nearer.Encoder.load(outcome.model, device="cpu").dimension == nearer.Encoder.load(teacher).dimension
    results = json.loads((out / "results.json").read_text())
    assert results["passages"] == 150
    assert len(results["standings"]) == len(outcome.standings)
    assert (out / "report.html").read_text().startswith("<!")
    # an index is built from it as it is
    index = nearer.SearchIndex.build(outcome.model, [passage(3).text, passage(4).text], out=tmp_path / "index")
    assert index.search("the keeper number3", k=1)

    # the same again takes what is there
    again = adapt(documents, out, **models, teachers=[teacher], queries=log)
    assert isinstance(again, Outcome)
    assert again.standings == outcome.standings
    with pytest.raises(InputError, match=r"other seed"):
        adapt(documents, out, **models, teachers=[teacher], queries=log, seed=1)


@pytest.mark.slow
@pytest.mark.usefixtures("small")
def test_the_same_comes_out_over_ray(
    documents: Path, models: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ray = pytest.importorskip("ray")
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    for name, size in {"TEXTS_ON_CPU": 32, "PAIRS_ON_CPU": 64, "FEWEST_FOR_WORKERS": 8}.items():
        monkeypatch.setattr(workforce, name, size)
    alone = adapt(documents, tmp_path / "alone", **models)
    together = adapt(documents, tmp_path / "together", **models, engine="ray", workers=2)
    assert not ray.is_initialized()
    assert isinstance(alone, Outcome)
    assert isinstance(together, Outcome)
    assert together.standings == alone.standings
    # what was begun over Ray goes on without it
    again = adapt(documents, tmp_path / "together", **models)
    assert isinstance(again, Outcome)
    assert again.standings == alone.standings


@pytest.mark.parametrize("taught", [True, False])
def test_each_passage_is_read_once(
    documents: Path,
    models: dict[str, Any],
    teacher: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    taught: bool,
) -> None:
    """By the teacher, or by the base without one: what it said as a judge is what training takes. Queries are new."""
    out = tmp_path / "out"
    read: list[str] = []
    windows = VectorStore._windows

    def watched(store: VectorStore, missing: MissingSentences, *more: Any) -> Any:
        read.extend(missing)
        return windows(store, missing, *more)

    trusted = {"teacher": 1.0} if taught else {"lexical": 1.0}
    monkeypatch.setattr(VectorStore, "_windows", watched)
    monkeypatch.setattr(arguments, "make_plan", lambda *given, **more: replace(PLAN, best=12))
    monkeypatch.setattr(stages, "best_fusion", lambda *given: (trusted, 3.0))
    adapt(documents, out, **{**models, "judge": None}, teachers=[teacher] if taught else [])
    queries, passages = (
        {
            json.loads(line)["text"]
            for folder in out.glob("lists*")
            for line in (folder / f"{name}.jsonl").read_text().splitlines()
        }
        for name in ("queries", "passages")
    )
    assert set(read) == queries - passages
    assert read


def test_a_second_student_learns_at_twice_the_rate(
    documents: Path, models: dict[str, Any], teacher: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    monkeypatch.setattr(arguments, "make_plan", lambda *given, **more: replace(PLAN, halving=True))
    monkeypatch.setattr(stages, "best_fusion", lambda *given: ({"teacher": 1.0}, 3.0))
    found = adapt(documents, out, **{**models, "judge": None}, teachers=[teacher])
    assert isinstance(found, Outcome)
    [rung] = found.rungs
    assert set(rung.scores) == {"lists", "lists-faster"}
    assert {each.contender.encoder for each in found.standings} == {"base", *rung.kept}
    slow, fast = (
        [json.loads(line) for line in (out / "runs" / name / "metrics.jsonl").read_text().splitlines()]
        for name in ("lists", "lists-faster")
    )
    assert sorted([slow[-1]["step"], fast[-1]["step"]]) == [rung.step, 20]
    assert fast[0]["learning_rate"] == pytest.approx(2 * slow[0]["learning_rate"])
    assert "at twice the learning rate" in (out / "report.html").read_text()


@pytest.mark.parametrize("raw", [True, False])
def test_a_raw_base_learns_faster_and_more_of_its_teacher(
    documents: Path,
    models: dict[str, Any],
    teacher: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    raw: bool,
) -> None:
    monkeypatch.setattr(arguments, "make_plan", lambda *given, **more: PLAN)
    monkeypatch.setattr(stages, "best_fusion", lambda *given: ({"teacher": 1.0}, 3.0))
    monkeypatch.setattr(stages, "is_far_below", lambda *given: raw)
    monkeypatch.setattr(students, "SELDOM", 0)
    told: list[str] = []
    adapt(documents, tmp_path / "out", **{**models, "judge": None}, teachers=[teacher], say=told.append)
    learnt = read_run(tmp_path / "out/runs/lists").settings
    assert learnt["learning_rate"] == pytest.approx(3e-4 if raw else 5e-5)
    assert learnt["passage_weight"] == (1.0 if raw else 0.0)
    assert any("6 times the rate" in line for line in told) == raw


@pytest.mark.parametrize("often", [True, False])
def test_dropout_is_for_passages_that_are_read_often(
    documents: Path,
    models: dict[str, Any],
    teacher: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    often: bool,
) -> None:
    """And where they are read seldom, there is more to learn of how the teacher orders them among themselves."""
    monkeypatch.setattr(arguments, "make_plan", lambda *given, **more: PLAN)
    monkeypatch.setattr(stages, "best_fusion", lambda *given: ({"teacher": 1.0}, 3.0))
    monkeypatch.setattr(stages, "is_far_below", lambda *given: False)
    read = PLAN.steps * PLAN.batch * PLAN.per_query / 150  # times, if no test held out any
    monkeypatch.setattr(students, "SELDOM", read / 4 if often else 4 * read)
    adapt(documents, tmp_path / "out", **{**models, "judge": None}, teachers=[teacher])
    learnt = read_run(tmp_path / "out/runs/lists").settings
    assert (learnt["dropout"], learnt["passage_weight"]) == ((None, 0.0) if often else (0.0, 1.0))


@pytest.mark.parametrize(("raw", "asked", "most"), [(True, None, 8000), (True, 20, 20), (False, None, 2000)])
def test_a_raw_base_may_take_more_steps(
    documents: Path,
    models: dict[str, Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    raw: bool,
    asked: int | None,
    most: int,
) -> None:
    """Unless it was said how many."""
    expected = make_plan(60, 150, Speeds(0.01, 0.0, None), on_gpu=False).expected
    monkeypatch.setattr(
        arguments, "make_plan", lambda *given, **more: replace(PLAN, expected=expected, most_steps=more["most_steps"])
    )
    monkeypatch.setattr(stages, "is_far_below", lambda *given: raw)
    allowed: list[int] = []

    def settled(plan: Plan, taken: float, students: list[str]) -> Plan:
        allowed.append(plan.most_steps)
        return replace(plan, steps=0, expected=None)

    monkeypatch.setattr(stages, "settle", settled)
    adapt(documents, tmp_path / "out", **{**models, "judge": None}, most_steps=asked)
    assert allowed == [most]


def test_an_interrupted_run_goes_on(
    documents: Path, models: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the steps that were planned when the tests had shown the speed."""
    plan = make_plan(60, 150, Speeds(0.01, 0.0, None), on_gpu=False)
    monkeypatch.setattr(arguments, "make_plan", lambda *given, **more: replace(PLAN, expected=plan.expected))
    told: list[str] = []
    monkeypatch.setattr(stages, "settle", lambda plan, taken, students: replace(plan, steps=24, expected=None))
    models["judge"] = None
    straight = adapt(documents, tmp_path / "straight", **models)
    measured = stages.hold_tournament

    def interrupted(*given: Any, **more: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(stages, "hold_tournament", interrupted)
    with pytest.raises(KeyboardInterrupt, match="the same command goes on"):
        adapt(documents, tmp_path / "out", **models)
    monkeypatch.setattr(stages, "hold_tournament", measured)
    monkeypatch.setattr(stages, "settle", settle)
    found = adapt(documents, tmp_path / "out", **models, say=told.append)
    assert "24 steps" in " ".join(told)
    assert isinstance(found, Outcome)
    assert isinstance(straight, Outcome)
    assert found.standings == straight.standings


def test_labels_choose_and_measure(
    documents: Path, models: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of 60 labelled queries one half chooses, the other measures; none is learnt from."""
    monkeypatch.setattr(arguments, "make_plan", lambda *given, **more: replace(PLAN, steps=0))
    models["judge"] = None
    labels = {f"who sees the keeper of roof{number}": [f"d{number}"] for number in range(60)}
    log = [*list(labels)[:2], "who paints the ladder"]
    told: list[str] = []
    found = adapt(documents, tmp_path / "out", **models, labels=labels, queries=log, say=told.append)
    assert isinstance(found, Outcome)
    figures = found.labels
    assert figures is not None
    assert (figures.queries, figures.chose, figures.measured) == (60, 30, 30)
    assert {standing.contender for standing in figures.standings} == {each.contender for each in found.standings}
    assert figures.chosen.contender == found.chosen.contender
    assert {"base", "lexical", "trusted judges together"} <= set(figures.judges)
    assert all(change.test == "labels" for change in found.changes)
    assert any("2 queries of the log have labels" in line for line in told)
    assert found.chosen.contender.lexical == 3  # rare words find it; tests so small see no difference
    assert figures.chosen.low > 0
    assert "Spearman correlation of made tests and labels over the 4 set-ups" in tell_labels(found)[-1]
    written = json.loads((tmp_path / "out" / "results.json").read_text())
    assert written["labels"]["correlation"] == figures.correlation
    page = (tmp_path / "out" / "report.html").read_text()
    assert "30 measured" in page
    assert "were handed over in Python" in page

    kept = adapt(documents, tmp_path / "tests choose", **models, labels=labels, choose_by="tests")
    assert isinstance(kept, Outcome)
    assert kept.labels is not None
    assert (kept.labels.chose, kept.labels.measured) == (0, 60)
    assert not kept.is_better
    with pytest.raises(InputError, match="other queries, labels"):
        adapt(documents, tmp_path / "out", **models, labels=labels, choose_by="tests")


def test_a_word_that_no_setting_knows(documents: Path, models: dict[str, Any], tmp_path: Path) -> None:
    out = tmp_path / "out"
    with pytest.raises(SettingError, match="pretrain: 'simcse' is not one of tsdae, teacher, none"):
        adapt(documents, out, **models, pretrain="simcse")  # type: ignore[arg-type]
    with pytest.raises(SettingError, match="asked_in: 'mine' is not one of documents, own"):
        adapt(documents, out, **models, asked_in="mine")  # type: ignore[arg-type]
    with pytest.raises(SettingError, match="no teacher to learn from"):
        adapt(documents, out, **models, pretrain="teacher")
    assert not out.exists()


def test_a_plain_checkpoint_as_base(
    documents: Path, models: dict[str, Any], tiny_model: Callable[[str], Path], tmp_path: Path
) -> None:
    plain = {**models, "model": tiny_model("bert"), "judge": None}
    with pytest.raises(PoolingError, match="name the pooling"):
        adapt(documents, tmp_path / "out", **plain)
    outcome = adapt(documents, tmp_path / "out", **plain, pooling="first_last_mean", most_steps=20)
    assert isinstance(outcome, Outcome)
    assert nearer.Encoder.load(outcome.model, device="cpu").settings.pooling == "first_last_mean"
    assert "--pooling first_last_mean" in (tmp_path / "out/report.html").read_text()
    with pytest.raises(InputError, match="begun with other pooling"):
        adapt(documents, tmp_path / "out", **plain, pooling="cls", most_steps=20)


def test_a_plain_checkpoint_as_teacher_names_the_mend(
    documents: Path, models: dict[str, Any], tiny_model: Callable[[str], Path], tmp_path: Path
) -> None:
    plain = tiny_model("roberta")
    with pytest.raises(PoolingError, match=f"^teacher {plain}: .*: nearer export folder {plain} --pooling mean"):
        adapt(documents, tmp_path / "out", **models, teachers=[plain])
    assert not (tmp_path / "out").exists()


def test_a_setting_that_is_no_longer_given_is_another_run(
    documents: Path, models: dict[str, Any], tmp_path: Path
) -> None:
    out = tmp_path / "out"
    adapt(documents, out, **models, asked_in="own", most_steps=0)
    with pytest.raises(InputError, match="begun with other asked_in;"):
        adapt(documents, out, **models, most_steps=0)


def test_a_dry_run_writes_nothing(documents: Path, models: dict[str, Any], tmp_path: Path) -> None:
    found = adapt(documents, tmp_path / "out", **models, dry_run=True, budget="1h")
    assert isinstance(found, Plan)
    assert not (tmp_path / "out").exists()


def test_a_budget_that_is_too_short_is_told(
    documents: Path, models: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[str] = []
    monkeypatch.setattr(arguments, "measure_speeds", lambda *given: Speeds(1.0, 0.0, None))
    adapt(documents, tmp_path / "out", **models, dry_run=True, budget="30s", say=told.append)
    assert re.search(r"takes about \d+ min, more than the budget \(30s\)", told[-1])


@pytest.mark.parametrize(("pair", "said"), [(9.0, 1), (1e-4, 0)])
def test_a_judge_that_is_too_slow_is_told(
    pair: float, said: int, documents: Path, models: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[str] = []
    monkeypatch.setattr(arguments, "measure_speeds", lambda *given: Speeds(1e-3, 0.0, pair))
    adapt(documents, tmp_path / "out", **models, dry_run=True, budget="10min", say=told.append)
    assert sum(line.startswith("the judge takes no part: it is too slow") for line in told) == said


class TestBadInput:
    def test_labels(self, documents: Path, models: dict[str, Any], tmp_path: Path) -> None:
        with pytest.raises(InputError, match="3 labelled queries are too few to choose by; 50 are needed"):
            adapt(
                documents, tmp_path / "out", **models, labels={f"q{n}": [f"d{n}"] for n in range(3)}, choose_by="labels"
            )
        with pytest.raises(SettingError, match="choose_by: there are no labels"):
            adapt(documents, tmp_path / "out", **models, choose_by="labels")
        with pytest.raises(InputError, match=r"labelled documents are not among the documents: '7'.*'d0' here"):
            adapt(documents, tmp_path / "out", **models, labels={"q": ["7"], "p": ["8"]})

    def test_few_documents(self, models: dict[str, Any], tmp_path: Path) -> None:
        path = tmp_path / "few.jsonl"
        path.write_text("".join(json.dumps({"text": passage(number).text}) + "\n" for number in range(10)))
        with pytest.raises(InputError, match="10 are too few"):
            adapt(path, tmp_path / "out", **models)

    def test_a_folder_of_somebody_else(self, documents: Path, models: dict[str, Any], tmp_path: Path) -> None:
        (tmp_path / "mine").mkdir()
        (tmp_path / "mine" / "letter.txt").write_text("Dear")
        with pytest.raises(InputError, match="no earlier adapt's"):
            adapt(documents, tmp_path / "mine", **models)
        assert (tmp_path / "mine" / "letter.txt").read_text() == "Dear"

    def test_a_log_without_queries(self, documents: Path, models: dict[str, Any], tmp_path: Path) -> None:
        log, told = tmp_path / "log.txt", list[str]()
        log.write_text("\n \n")
        with pytest.raises(InputError, match=r"log\.txt: has no queries"):
            adapt(documents, tmp_path / "out", **models, queries=log)
        with pytest.raises(InputError, match=r"has no queries"):
            adapt(documents, tmp_path / "out", **models, queries=[])
        assert not (tmp_path / "out").exists()
        log.write_text("who repairs the kettle\n\nwhere was the storm\n")
        adapt(documents, tmp_path / "out", **models, queries=log, dry_run=True, say=told.append)
        assert any("log.txt: 3 read, 2 kept, 1 dropped" in line for line in told)

    def test_a_judge_that_is_none(self, documents: Path, models: dict[str, Any], tmp_path: Path) -> None:
        with pytest.raises(ModelError, match="cross-encoder"):
            adapt(documents, tmp_path / "out", **{**models, "judge": models["model"]})

    def test_a_budget_that_is_none(self, documents: Path, tmp_path: Path) -> None:
        with pytest.raises(SettingError, match="budget"):
            adapt(documents, tmp_path / "out", budget="a while")

    @pytest.mark.parametrize(("name", "value"), [("seed", -1), ("most_steps", -1), ("most_queries", 0)])
    def test_numbers_that_are_too_small(self, documents: Path, tmp_path: Path, name: str, value: int) -> None:
        with pytest.raises(SettingError, match=f"{name}: {value} is below"):
            adapt(documents, tmp_path / "out", **{name: value})  # type: ignore[arg-type]

    def test_names_of_teachers(self, documents: Path, tmp_path: Path) -> None:
        with pytest.raises(SettingError, match="twice"):
            adapt(documents, tmp_path / "out", teachers=["a/large", "a/large"])
        assert list(name_teachers(["a/large", "b/large", "base"])) == ["large", "b/large (teacher)", "base (teacher)"]
        assert list(name_teachers(["a/lists"])) == ["a/lists (teacher)"]  # a student's name

    def test_a_script_that_the_base_does_not_know(self, models: dict[str, Any], tmp_path: Path) -> None:
        path, told = tmp_path / "foreign.jsonl", []
        rows = ({"text": f"ქართული ტექსტი {number} არის აქ. " * 6} for number in range(120))
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        adapt(path, tmp_path / "out", **models, dry_run=True, say=told.append)
        assert any("does not know" in line for line in told)

    def test_the_command_names_the_option(self, documents: Path, tmp_path: Path) -> None:
        runner = CliRunner()
        found = runner.invoke(app, ["adapt", str(documents), "--out", str(tmp_path / "out"), "--workers", "2"])
        assert found.exit_code == 1
        assert "--workers: are Ray's; give --engine ray with it." in found.output
        found = runner.invoke(app, ["adapt", str(documents), "--out", str(tmp_path / "out"), "--columns", "text"])
        assert found.exit_code == 1
        assert "text=NAME" in found.output
        found = runner.invoke(app, ["adapt", str(tmp_path / "nowhere"), "--out", str(tmp_path / "out")])
        assert found.exit_code == 1
        assert "no such file" in found.output
