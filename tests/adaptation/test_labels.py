"""Labelled queries: read in all forms, matched with documents, measured over documents; and what is wrong with them."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from nearer.adaptation.label_figures import (
    LABELS,
    LabelledCandidates,
    choose_by_labels,
    correlate,
    split_labels,
)
from nearer.adaptation.labels import Labels, key_of, match_labels, read_labels
from nearer.adaptation.tournament import Contender, Standing, hold_tournament
from nearer.errors import InputError
from nearer.evaluation.measures import ndcg

BASE, STUDENT = Contender("base"), Contender("student")
ANSWERS = {"who is it": {"d1": 1.0, "d2": 2.0}, "where was it": {"d3": 1.0}}


def write_beir(folder: Path, split: str = "test") -> Path:
    (folder / "qrels").mkdir(parents=True, exist_ok=True)
    rows = ({"_id": f"q{number}", "text": query} for number, query in enumerate(ANSWERS))
    (folder / "queries.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    lines = [f"q{n}\t{id}\t{gain:g}\n" for n, gains in enumerate(ANSWERS.values()) for id, gain in gains.items()]
    (folder / "qrels" / f"{split}.tsv").write_text("query-id\tcorpus-id\tscore\n" + "".join(lines) + "q1\td9\t0\n")
    return folder


class TestReading:
    def check(self, found: Labels) -> None:
        assert dict(zip(found.queries, found.gains, strict=True)) == ANSWERS

    @pytest.mark.parametrize("split", ["test", "dev"])
    def test_a_folder(self, tmp_path: Path, split: str) -> None:
        self.check(read_labels(write_beir(tmp_path, split)))

    def test_one_of_several_splits(self, tmp_path: Path) -> None:
        write_beir(tmp_path, "dev")
        (tmp_path / "qrels" / "train.tsv").write_text("query-id\tcorpus-id\tscore\nq0\td8\t1\n")
        self.check(read_labels(f"{tmp_path}?split=dev"))
        with pytest.raises(InputError, match=r"has judgements of dev, train; name one of them: .*\?split=dev"):
            read_labels(tmp_path)

    def test_a_table_with_and_without_names(self, tmp_path: Path) -> None:
        path = tmp_path / "labels.tsv"
        lines = "".join(f"{query}\t{id}\t{gain:g}\n" for query, ids in ANSWERS.items() for id, gain in ids.items())
        path.write_text(lines)
        self.check(read_labels(path))
        path.write_text(f"question\tdoc_id\tgain\n{lines}")
        self.check(read_labels(path))

    def test_json_with_several_documents(self, tmp_path: Path) -> None:
        path = tmp_path / "labels.jsonl"
        rows = [{"query": "a fox", "documents": ["d1", 7]}, {"query": "a dog", "documents": "d2", "gain": 3}]
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        assert read_labels(path).gains == [{"d1": 1.0, "7": 1.0}, {"d2": 3.0}]

    def test_in_memory(self) -> None:
        assert read_labels({"a fox": ["d1"], "a dog": {"d2": 2, "d3": 0}}).gains == [{"d1": 1.0}, {"d2": 2.0}]

    @pytest.mark.parametrize(
        ("name", "text", "message"),
        [
            ("a.jsonl", '{"query": "a fox", "documents": ["d1"], "gain": "much"}\n', r"a\.jsonl: line 1: .*'much'"),
            ("a.jsonl", '{"query": "", "documents": ["d1"]}\n', r"a\.jsonl: line 1: .*query: empty"),
            ("a.jsonl", '{"_id": "q1", "text": "a fox"}\n', r"a\.jsonl: line 1: .* has a query, a document"),
            ("a.tsv", "query\tanswer text\tnotes\tmore\na\tb\tc\td\n", r"a\.tsv: cannot tell which columns"),
            ("a.tsv", "a fox\td1\t0\n", r"no query has a document with a gain above 0"),
            ("a.tsv", "", r"no query has a document"),
        ],
    )
    def test_what_is_wrong(self, tmp_path: Path, name: str, text: str, message: str) -> None:
        (tmp_path / name).write_text(text)
        with pytest.raises(InputError, match=message):
            read_labels(tmp_path / name)

    def test_nothing_there(self, tmp_path: Path) -> None:
        with pytest.raises(InputError, match="no such file or folder"):
            read_labels(tmp_path / "labels.tsv")
        (write_beir(tmp_path) / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\nq9\td1\t1\n")
        with pytest.raises(InputError, match=r"'q9'.*do not belong together"):
            read_labels(tmp_path)
        with pytest.raises(InputError, match="a fox"):
            read_labels({"a fox": {"d1": "much"}})  # type: ignore[dict-item]


class TestMatching:
    def test_copies_count_as_the_kept_one_and_missing_ones_as_not_found(self) -> None:
        labels = read_labels({"one": ["a", "a copy"], "two": {"b": 1, "gone": 3}, "three": ["lost"], "four": ["c"]})
        found = match_labels(labels, ["a", "b", "c", "e"], {"a copy": "a"})
        (remark,) = found.remarks
        assert found.queries == ["one", "two", "four"]
        assert found.gains == [{"a": 1.0}, {"b": 1.0}, {"c": 1.0}]
        assert found.missing == [[], [3.0], []]
        assert remark.endswith("count as not found: 'gone', 'lost'; queries without another answer, left out: 1")
        assert found.keys == {"one", "two", "three", "four"}  # none of them is learnt from

    def test_most_are_missing(self) -> None:
        labels = read_labels({"one": ["a.md"], "two": ["docs/b.md"], "three": ["docs/c.md"]})
        with pytest.raises(InputError, match=r"2 of 3 labelled documents .*'docs/b.md', 'docs/c.md' there"):
            match_labels(labels, ["a.md", "b.md"], {})

    def test_one_query_is_too_few(self) -> None:
        with pytest.raises(InputError, match="1 query with an answer is too few"):
            match_labels(read_labels({"one": ["a"]}), ["a"], {})

    def test_some_are_drawn(self) -> None:
        labels = read_labels({f"query {number}": [f"d{number}"] for number in range(20)})
        drawn = labels.draw(5, np.random.default_rng(0))
        assert len(drawn) == 5
        assert all(
            gains == {f"d{query.split()[1]}": 1.0} for query, gains in zip(drawn.queries, drawn.gains, strict=True)
        )
        assert len(drawn.keys) == 20
        assert labels.draw(20, np.random.default_rng(0)) is labels


def test_what_counts_as_the_same_query() -> None:
    assert key_of("Who  is it?") == key_of("who is it") != key_of("who was it")


def make_labelled(seed: int, queries: int = 60, **better: float) -> LabelledCandidates:
    """Three passages a document; the best document of a query is better by what `better` says of a judge."""
    random = np.random.default_rng(seed)
    documents = np.repeat(np.arange(20), 3)
    numbers = np.array([random.permutation(60)[:25] for _ in range(queries)])
    numbers[:, -3:] = -1
    gains = [{int(documents[row[4]]): 2.0, int(random.integers(20)): 1.0} for row in numbers]
    scores = {}
    for judge in ("base", "student", "lexical"):
        scores[judge] = random.normal(size=numbers.shape).astype(np.float32)
        scores[judge][:, 4] += better.get(judge, 0.0)
    return LabelledCandidates(numbers, documents, gains, [np.array([*each.values(), 1.0]) for each in gains], scores)


@pytest.mark.parametrize("seed", range(3))
def test_a_document_stands_where_its_best_passage_stands(seed: int) -> None:
    found = make_labelled(seed, 12)
    weights = {"base": 1.0, "lexical": 0.3}
    for row in range(12):
        fused: dict[int, float] = {}
        there = [column for column in range(25) if found.numbers[row, column] >= 0]
        for column in there:
            score = 0.0
            for judge, weight in weights.items():
                own = found.scores[judge][row, there].astype(np.float64)
                score += weight * (found.scores[judge][row, column] - own.mean()) / own.std()
            document = int(found.documents[found.numbers[row, column]])
            fused[document] = max(score, fused.get(document, -np.inf))
        order = sorted(fused, key=lambda document: -fused[document])
        wanted = ndcg(np.array([found.gains[row].get(each, 0.0) for each in order]), ideal=found.ideal[row], cut=10)
        assert found.ndcg(weights)[row] == pytest.approx(wanted, abs=1e-9)
        right = [rank for rank, document in enumerate(order, 1) if document in found.gains[row]]
        assert found.ranks(weights)[row] == (right[0] if right else 0)
        best = max(found.gains[row], key=lambda document: found.gains[row][document])
        assert found.documents[found.answer(row)] == best


def test_no_query_both_chooses_and_measures() -> None:
    split = split_labels(101, chooses=True, random=np.random.default_rng(0))
    assert sorted([*split.choosing, *split.measuring]) == list(range(101))
    assert len(split.choosing) == 50
    assert len(split_labels(101, chooses=False, random=np.random.default_rng(0)).choosing) == 0


def standing(contender: Contender, gain: float) -> Standing:
    return Standing(contender, gain, gain - 0.5, gain + 0.5, {})


def test_labels_take_precedence_over_tests() -> None:
    by_tests = [standing(Contender("base", 1.0), 5.0), standing(STUDENT, 1.0), Standing(BASE, 0, 0, 0, {})]
    assert choose_by_labels(make_labelled(1, student=20.0), by_tests, BASE).contender == STUDENT


def test_what_labels_put_below_the_base_is_not_chosen() -> None:
    """They are certain of nothing: the tests choose among what is left."""
    noise = make_labelled(2, 40)
    contenders = [Contender("base", 1.0), Contender("base", 0.3), STUDENT, BASE]
    gains = {each.contender: each.gain for each in hold_tournament({LABELS: noise}, contenders, BASE)}
    by_tests = [standing(contender, 9.0 - number) for number, contender in enumerate(contenders[:-1])]
    chosen = choose_by_labels(noise, [*by_tests, Standing(BASE, 0, 0, 0, {})], BASE)
    wanted = next((contender for contender in contenders[:-1] if gains[contender] >= 0), BASE)
    assert chosen.contender == wanted


def test_the_correlation_of_tests_and_labels() -> None:
    found = make_labelled(3, student=20.0, lexical=-20.0)
    contenders = [STUDENT, BASE, Contender("base", 0.3), Contender("base", 1.0)]
    contenders.sort(key=lambda each: found.ndcg(each.weights).mean())
    assert correlate(found, [standing(each, number) for number, each in enumerate(contenders)]) == pytest.approx(1.0)
    assert correlate(found, [standing(each, -number) for number, each in enumerate(contenders)]) == pytest.approx(-1.0)
    assert correlate(found, [standing(each, 0.0) for each in contenders]) is None
