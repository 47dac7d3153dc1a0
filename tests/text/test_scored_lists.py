"""Scored lists: as a folder and as one file, the same; what cannot be used is counted, by line."""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nearer.errors import DamagedError, InputError
from nearer.text import Fault, ReadOptions, write_lists
from nearer.text.scored_lists import Lists, QueriesAndPassages, ScoredLists

PASSAGES = [
    {"_id": "p1", "text": "It rains."},
    {"_id": "p2", "text": "A man is eating.", "title": "Lunch"},
    {"_id": 3, "text": "The street is wet."},
    {"_id": "p4", "text": "Nobody knows."},
]
QUERIES = [{"_id": "q1", "text": "why is it wet", "kind": "question"}, {"_id": "q2", "text": "lunch", "source": "p2"}]
LISTS = [
    {"query": "q1", "passages": ["p2", "p1", 3], "scores": [-1, 4.5, 2]},
    {"query": "q2", "passages": ["p2", "p4"], "scores": [0.5, 0.25]},
]
TEXTS = {"p1": "It rains.", "p2": "Lunch A man is eating.", "3": "The street is wet.", "p4": "Nobody knows."}


def lines(path: Path, rows: Sequence[Any]) -> Path:
    path.write_text("".join((row if isinstance(row, str) else json.dumps(row)) + "\n" for row in rows))
    return path


def folder(root: Path, **files: Sequence[Any]) -> Path:
    """The three files, some of them with other lines; without checksums, as from elsewhere."""
    root.mkdir()
    for name, rows in {"passages": PASSAGES, "queries": QUERIES, "lists": LISTS, **files}.items():
        lines(root / f"{name}.jsonl", rows)
    return root


def content(reading: ScoredLists) -> list[tuple[str, dict[str, float]]]:
    """Of each record the query, and its passages' texts with their scores in the lists' order."""
    texts, lists = list(reading.passages()), reading.lists
    found = []
    for record, query in enumerate(reading):
        some = slice(lists.starts[record], lists.starts[record + 1])
        names = [texts[number] for number in lists.passages[some]]
        found.append((query, dict(zip(names, lists.scores[some].tolist(), strict=True))))
    return found


WHOLE = [
    ("why is it wet", {"It rains.": 4.5, "The street is wet.": 2.0, "Lunch A man is eating.": -1.0}),
    ("lunch", {"Lunch A man is eating.": 0.5, "Nobody knows.": 0.25}),
]


class TestWhatIsRead:
    def test_what_was_written_best_first(self, tmp_path: Path) -> None:
        write_lists(tmp_path / "lists", PASSAGES, QUERIES, LISTS)
        reading = ScoredLists(tmp_path / "lists", ReadOptions())
        assert content(reading) == WHOLE
        assert [list(scores) for _, scores in content(reading)] == [list(scores) for _, scores in WHOLE]
        assert list(reading.passages()) == list(TEXTS.values())
        assert list(QueriesAndPassages(reading)) == ["why is it wet", "lunch", *TEXTS.values()]
        assert (reading.report.read, reading.report.kept, reading.passage_count) == (2, 2, 4)
        kept = json.loads((tmp_path / "lists" / "queries.jsonl").read_text().splitlines()[1])
        assert kept["source"] == "p2"

    @pytest.mark.parametrize("in_memory", [True, False])
    def test_texts_inside_are_the_same_and_equal_passages_are_one(self, tmp_path: Path, in_memory: bool) -> None:
        inside = [
            {**each, "query": query, "passages": [TEXTS[str(id)] for id in each["passages"]]}
            for each, (query, _) in zip(LISTS, WHOLE, strict=True)
        ]
        reading = ScoredLists(inside if in_memory else lines(tmp_path / "inside.jsonl", inside), ReadOptions())
        assert content(reading) == WHOLE
        assert sorted(reading.passages()) == sorted(TEXTS.values())
        assert reading.passage_count == 4

    def test_a_compressed_file(self, tmp_path: Path) -> None:
        import gzip

        path = folder(tmp_path / "lists") / "passages.jsonl"
        (path.parent / "passages.jsonl.gz").write_bytes(gzip.compress(path.read_bytes()))
        path.unlink()
        assert content(ScoredLists(path.parent, ReadOptions())) == WHOLE

    @pytest.mark.parametrize("name", ["passages", "queries", "lists"])
    def test_a_change_of_any_file_changes_the_fingerprint(self, tmp_path: Path, name: str) -> None:
        root = folder(tmp_path / "lists")
        before = ScoredLists(root, ReadOptions()).fingerprint()
        assert before == ScoredLists(root, ReadOptions()).fingerprint()
        assert before != ScoredLists(root, ReadOptions(), shortest=3).fingerprint()
        passages = ScoredLists(root, ReadOptions()).passages().fingerprint()
        with open(root / f"{name}.jsonl", "a") as file:
            file.write("\n")
        assert before != ScoredLists(root, ReadOptions()).fingerprint()
        assert (passages != ScoredLists(root, ReadOptions()).passages().fingerprint()) == (name == "passages")

    def test_damage_is_found(self, tmp_path: Path) -> None:
        write_lists(tmp_path / "lists", PASSAGES, QUERIES, LISTS)
        path = tmp_path / "lists" / "lists.jsonl"
        path.write_text(path.read_text().replace("4.5", "4.6"))
        with pytest.raises(DamagedError, match=r"lists\.jsonl"):
            list(ScoredLists(tmp_path / "lists", ReadOptions()))


class TestFaults:
    @pytest.mark.parametrize(
        ("line", "fault", "detail"),
        [
            ({"query": "q1", "passages": ["p1", "p2"], "scores": [1]}, Fault.WRONG_FIELDS, "2 passages, 1 scores"),
            ({"query": "q9", "passages": ["p1", "p2"], "scores": [1, 2]}, Fault.WRONG_FIELDS, "no query 'q9'"),
            ('{"query": "q1", "passages": ["p1", "p2"], "scores": [1, NaN]}', Fault.BAD_SCORE, "nan"),
            ({"query": "q1", "passages": ["p1", "p2"], "scores": [1, 1e300]}, Fault.BAD_SCORE, "1e"),
            ({"query": "q1", "passages": ["p1", "p2"], "scores": [1, "high"]}, Fault.BAD_SCORE, "high"),
            ({"query": "q1", "passages": ["p1", "p2"], "scores": [3, 3]}, Fault.EQUAL_SCORES, "3"),
            ({"query": "q1", "passages": ["p1"], "scores": [3]}, Fault.WRONG_COLUMNS, "1 passages found"),
            ({"query": "q1", "passages": ["p1", "p8"], "scores": [3, 2]}, Fault.FEW_PASSAGES, "1 passages"),
            ({"query": "q1", "passages": ["p1", None], "scores": [3, 2]}, Fault.WRONG_FIELDS, "an id expected"),
            ({"query": "q1", "passages": "p1", "scores": [3]}, Fault.WRONG_FIELDS, "a list expected"),
            ({"query": "q1", "passages": ["p1", "p2"]}, Fault.WRONG_FIELDS, "no scored list"),
        ],
        ids=str,
    )
    def test_a_list_that_cannot_be_used_is_dropped_and_named(
        self, tmp_path: Path, line: Any, fault: Fault, detail: str
    ) -> None:
        reading = ScoredLists(folder(tmp_path / "lists", lists=[LISTS[0], line, LISTS[1]]), ReadOptions())
        assert content(reading) == WHOLE
        report = reading.report
        assert (report.read, report.kept, report.dropped) == (3, 2, 1)
        [(number, told)] = report.tallies[fault].examples
        assert number == 2
        assert detail in told

    def test_an_unknown_passage_is_left_out_and_the_better_of_two_scores_kept(self, tmp_path: Path) -> None:
        line = {"query": "q1", "passages": ["p1", "p7", "p2", "p1"], "scores": [1, 9, 2, 3]}
        reading = ScoredLists(folder(tmp_path / "lists", lists=[line]), ReadOptions())
        assert content(reading) == [("why is it wet", {"It rains.": 3.0, "Lunch A man is eating.": 2.0})]
        assert reading.report.tallies[Fault.UNKNOWN_PASSAGE].examples == [(1, "'p7'")]
        assert reading.report.tallies[Fault.REPEATED_PASSAGE].examples == [(1, "")]

    def test_shorter_lists_than_asked_for(self, tmp_path: Path) -> None:
        reading = ScoredLists(folder(tmp_path / "lists"), ReadOptions(), shortest=3)
        assert content(reading) == WHOLE[:1]
        assert reading.report.tallies[Fault.FEW_PASSAGES].examples == [(2, "2 passages")]

    def test_passages_that_cannot_be_read_are_told_of(self, tmp_path: Path) -> None:
        reading = ScoredLists(
            folder(tmp_path / "lists", passages=[*PASSAGES, {"_id": "p5", "text": " "}, {"text": "no id"}]),
            ReadOptions(),
        )
        assert content(reading) == WHOLE
        assert "passages.jsonl: 6 read, 4 kept, 2 dropped" in str(reading.report)

    @pytest.mark.parametrize(
        ("files", "told"),
        [
            (
                {"passages": [*PASSAGES, {"_id": "p1", "text": "again"}]},
                r"passages\.jsonl: line 5 has the _id 'p1' again",
            ),
            ({"queries": [*QUERIES, QUERIES[0]]}, r"queries\.jsonl: line 3 has the _id 'q1' again"),
            ({"lists": [{**LISTS[0], "query": "q7"}]}, "nothing in it could be used"),
            ({"lists": [LISTS[0], "{", "{"]}, "2 of 3 lines could not be used"),
            ({"passages": ["no json"] * 3}, r"passages\.jsonl: nothing in it could be used"),
        ],
    )
    def test_too_little_or_unclear(self, tmp_path: Path, files: Mapping[str, Sequence[Any]], told: str) -> None:
        with pytest.raises(InputError, match=told):
            list(ScoredLists(folder(tmp_path / "lists", **files), ReadOptions()))

    @pytest.mark.parametrize("name", ["passages.jsonl", "queries.jsonl", "lists.jsonl"])
    def test_a_missing_file_is_named(self, tmp_path: Path, name: str) -> None:
        root = folder(tmp_path / "lists")
        (root / name).unlink()
        with pytest.raises(InputError, match=rf"{name} is missing; scored lists are a folder with passages\.jsonl"):
            ScoredLists(root, ReadOptions()).fingerprint()


class TestWriting:
    @pytest.mark.parametrize(
        ("changed", "told"),
        [
            ({"passages": [*PASSAGES, PASSAGES[0]]}, r"passages\.jsonl: row 5 has the _id 'p1' again"),
            ({"passages": [{"_id": "p1"}]}, r"passages\.jsonl: row 1 needs an _id and a text"),
            ({"queries": [{"_id": "q1", "text": "\ud800"}]}, r"queries\.jsonl: row 1 needs an _id and a text"),
            ({"lists": [{**LISTS[0], "query": "q7"}]}, r"lists\.jsonl: row 1: queries\.jsonl has no query 'q7'"),
            ({"lists": [{**LISTS[0], "passages": ["p1", "p9", 3]}]}, r"passages\.jsonl has no passage 'p9'"),
            ({"lists": [{**LISTS[0], "scores": [1]}]}, "has 3 passages and 1 scores"),
            ({"lists": [{**LISTS[0], "scores": [1, 2, math.nan]}]}, "not a finite number"),
        ],
    )
    def test_what_could_not_be_read_again_is_refused_and_nothing_left(
        self, tmp_path: Path, changed: dict[str, Any], told: str
    ) -> None:
        given = {"passages": PASSAGES, "queries": QUERIES, "lists": LISTS, **changed}
        with pytest.raises(InputError, match=told):
            write_lists(tmp_path / "lists", **given)
        assert list(tmp_path.iterdir()) == []

    def test_a_folder_is_not_written_over_unless_asked(self, tmp_path: Path) -> None:
        write_lists(tmp_path / "lists", PASSAGES, QUERIES, LISTS)
        with pytest.raises(InputError, match="is there already"):
            write_lists(tmp_path / "lists", PASSAGES, QUERIES, LISTS[:1])
        write_lists(tmp_path / "lists", PASSAGES, QUERIES, LISTS[:1], overwrite=True)
        assert content(ScoredLists(tmp_path / "lists", ReadOptions())) == WHOLE[:1]


@settings(max_examples=50, deadline=None)
@given(
    st.lists(
        st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=8).filter(lambda scores: max(scores) - min(scores) > 1e-3),
        min_size=1,
        max_size=6,
    )
)
def test_standardised_scores_have_mean_0_and_variance_1_in_each_list(given: list[list[float]]) -> None:
    starts = np.concatenate([[0], np.cumsum([len(scores) for scores in given])])
    lists = Lists(starts, np.arange(starts[-1]), np.concatenate([np.array(scores) for scores in given]))
    found = lists.standardised()
    for number, scores in enumerate(given):
        mean, deviation = statistics.fmean(scores), statistics.pstdev(scores)
        wanted = [(score - mean) / deviation for score in scores]
        np.testing.assert_allclose(found[starts[number] : starts[number + 1]], wanted, rtol=1e-6, atol=1e-6)
