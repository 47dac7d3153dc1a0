"""A kind of task that another package brings: registered or found by its entry point, evaluated, compared."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest
from numpy.typing import NDArray
from table_scorer import TableScorer

from nearer.analysis.compare import compare, rows_beside
from nearer.errors import SettingError
from nearer.evaluation import (
    Form,
    KnownTask,
    Scorer,
    SentenceVectors,
    Task,
    TaskKind,
    TaskScore,
    evaluate,
    load_tasks,
    register_kind,
    tasks,
)
from nearer.evaluation.tasks import expand, is_test, kind_name, kind_title, needs_data

TOY = [("red", "crimson", "blue"), ("cat", "kitten", "stone"), ("sea", "ocean", "desk")]


@dataclass(frozen=True)
class OddOneOut(Task):
    """Is the first word nearer to its partner than to the odd one? It has no more than a task must have."""

    kind: ClassVar[str] = "odd-one-out"

    name: str
    split: str
    layout: str
    triples: list[tuple[str, str, str]]

    def sentences(self) -> Iterator[str]:
        return (word for triple in self.triples for word in triple)

    def score(self, model: Scorer, vectors: SentenceVectors) -> TaskScore:
        return self.make_score(
            count=len(self.triples),
            unit="triples",
            measure="accuracy",
            figures={"accuracy": 100 * float(self._hits(model, vectors).mean())},
        )

    def data_hash(self) -> str:
        return hashlib.sha256(json.dumps(self.triples).encode()).hexdigest()[:16]

    def _hits(self, model: Scorer, vectors: SentenceVectors) -> NDArray[np.float64]:
        first, partner, odd = (vectors.of(words) for words in zip(*self.triples, strict=True))
        return (model.pair_scores(first, partner) > model.pair_scores(first, odd)).astype(np.float64)


class OddOneOutByQuery(OddOneOut):
    """The same with what an interval needs."""

    def per_query(self, model: Scorer, vectors: SentenceVectors) -> dict[str, NDArray[np.float64]]:
        return {"accuracy": self._hits(model, vectors)}


def load_odd_one_out(name: str, data: str | Path | None, strict: bool) -> Task:
    if name.startswith("odd:"):
        lines = Path(name.removeprefix("odd:")).read_text(encoding="utf-8").splitlines()
        triples = [(first, partner, odd) for first, partner, odd in (line.split("\t") for line in lines)]
        return OddOneOut(Path(name).stem, "file", "file", triples)
    return OddOneOutByQuery("Toy", "test", "toy", TOY)


KIND = TaskKind(
    "odd-one-out",
    load_odd_one_out,
    known={"odd-toy": KnownTask("Toy test", is_test=True)},
    groups={"odd": ("odd-toy",)},
    forms=(Form("odd:", "FILE"),),
    title="Odd one out",
)


@pytest.fixture(autouse=True)
def no_other_kinds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tasks, "_registered", {})


@pytest.fixture
def registered() -> None:
    register_kind(KIND)


def scorer(name: str, right: int) -> TableScorer:
    """A model that has the first `right` of the triples right."""
    table: dict[str, list[float]] = {}
    for number, triple in enumerate(TOY):
        near, far = [1.0, 0.0], [0.0, 1.0]
        table |= dict(zip(triple, (near, near, far) if number < right else (near, far, near), strict=True))
    model = TableScorer(table)
    model.name = name
    return model


@pytest.mark.usefixtures("registered")
class TestRegistered:
    def test_by_name_by_group_and_by_form(self, tmp_path: Path) -> None:
        path = tmp_path / "mine.tsv"
        path.write_text("a\tb\tc\n", encoding="utf-8")
        assert expand("ODD") == expand("odd-toy") == ("odd-toy",)
        [toy, mine] = load_tasks(["odd", f"odd:{path}"], None)
        assert isinstance(toy, OddOneOutByQuery)
        assert isinstance(mine, OddOneOut)
        assert mine.triples == [("a", "b", "c")]

    def test_what_its_names_may_be_used_for(self) -> None:
        assert is_test("odd")
        assert not is_test("odd:x.tsv")
        assert not needs_data("odd")

    def test_messages_know_it(self) -> None:
        with pytest.raises(SettingError, match=r"odd-one-out: odd, odd-toy; or .*, odd:FILE\. Did you mean 'odd-toy'"):
            expand("odd-toi")

    def test_what_tables_and_reports_call_it(self) -> None:
        assert (kind_name("odd-one-out"), kind_title("odd-one-out")) == ("odd-one-out", "Odd one out")
        assert (kind_name("sts"), kind_name("of nobody"), kind_title("of nobody")) == ("STS", "of nobody", "of nobody")

    def test_evaluate(self) -> None:
        results = evaluate(scorer("one", right=2), "odd")
        assert results["odd-toy"] == results["Toy"] == results.averages["odd-one-out"] == pytest.approx(200 / 3)

    def test_compare_with_an_interval(self) -> None:
        found = compare([scorer("one", right=1), scorer("two", right=3)], load_tasks(["odd"], None))
        [difference] = found.differences
        assert (difference.kind, difference.task, difference.model) == ("odd-one-out", "Toy", "two")
        assert difference.difference == pytest.approx(200 / 3)
        assert difference.interval is not None
        assert difference.interval.difference == pytest.approx(200 / 3)

    def test_compare_without_what_an_interval_needs(self, tmp_path: Path) -> None:
        path = tmp_path / "mine.tsv"
        path.write_text("".join("\t".join(triple) + "\n" for triple in TOY), encoding="utf-8")
        found = compare([scorer("one", right=1), scorer("two", right=3)], load_tasks([f"odd:{path}"], None))
        [difference] = found.differences
        assert difference.interval is None
        assert difference.remark == "no interval: accuracy is not made of the triples one by one"

    def test_nothing_was_published_of_it(self) -> None:
        assert rows_beside(load_tasks(["odd"], None), "all") == []

    def test_again(self) -> None:
        register_kind(KIND)
        assert len(load_tasks(["odd"], None)) == 1


class TestEntryPoint:
    @pytest.fixture
    def installed(self, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[EntryPoint]]:
        entries: list[EntryPoint] = []
        monkeypatch.setattr(tasks, "entry_points", lambda group: entries if group == "nearer.tasks" else [])
        tasks._installed_kinds.cache_clear()
        yield entries
        tasks._installed_kinds.cache_clear()

    def test_a_kind_of_an_installed_package(self, installed: list[EntryPoint]) -> None:
        installed.append(EntryPoint("odd", f"{__name__}:KIND", "nearer.tasks"))
        assert load_tasks(["odd"], None)[0].name == "Toy"

    def test_a_package_that_cannot_be_imported(self, installed: list[EntryPoint]) -> None:
        installed.append(EntryPoint("odd", "no_such_package:KIND", "nearer.tasks"))
        message = r"the kind 'odd' of an installed package \(no_such_package:KIND\) cannot be loaded \(No module named"
        with pytest.raises(SettingError, match=message):
            load_tasks(["odd"], None)

    def test_something_else(self, installed: list[EntryPoint]) -> None:
        installed.append(EntryPoint("odd", f"{__name__}:TOY", "nearer.tasks"))
        with pytest.raises(SettingError, match="TOY of an installed package is no TaskKind"):
            load_tasks(["odd"], None)


class TestNamesMustBeItsOwn:
    @pytest.mark.parametrize(
        ("kind", "message"),
        [
            (TaskKind("sts", load_odd_one_out), "the kind 'sts' is one of nearer's own"),
            (
                TaskKind("odd", load_odd_one_out, {"stsb": KnownTask()}),
                "'stsb' of the kind 'odd' is a name of the kind 'sts'",
            ),
            (TaskKind("odd", load_odd_one_out, forms=(Form("rerank:", "FILE"),)), "is a name of the kind 'reranking'"),
            (TaskKind("odd", load_odd_one_out, {"Odd": KnownTask()}), "'Odd' of the kind 'odd' is not in lower case"),
        ],
    )
    def test_refused(self, kind: TaskKind, message: str) -> None:
        with pytest.raises(SettingError, match=message):
            register_kind(kind)
