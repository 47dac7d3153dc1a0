"""Tasks from files of scored pairs."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from nearer.errors import InputError
from nearer.evaluation import PairTask, file_task
from nearer.text import Fault, Pair


def task(*pairs: Pair, subset: str = "x") -> PairTask:
    return PairTask("x", "file", "file", {subset: list(pairs)})


class TestFiles:
    def test_pairs_and_scores(self, tmp_path: Path) -> None:
        path = tmp_path / "mine.v2.tsv"
        path.write_text("a b\tc d\t1.5\ne\tf\t2\n", encoding="utf-8")
        found = file_task(path)
        assert (found.name, found.split, found.layout) == ("mine", "file", "file")
        assert found.subsets == {"mine": [Pair("a b", "c d", 1.5), Pair("e", "f", 2.0)]}

    def test_a_given_name(self, tmp_path: Path) -> None:
        path = tmp_path / "mine.tsv"
        path.write_text("a\tb\t1\nc\td\t2\n", encoding="utf-8")
        assert file_task(path, name="yours").name == "yours"

    def test_a_hidden_file_has_a_name(self, tmp_path: Path) -> None:
        path = tmp_path / ".mine.tsv"
        path.write_text("a\tb\t1\nc\td\t2\n", encoding="utf-8")
        assert file_task(path).name == "mine"

    def test_columns_by_name(self, tmp_path: Path) -> None:
        path = tmp_path / "mine.csv"
        path.write_text("gold,left,right\n1,a,b\n2,c,d\n", encoding="utf-8")
        assert file_task(path, columns=("left", "right", "gold")).pairs == [Pair("a", "b", 1), Pair("c", "d", 2)]

    def test_unusable_lines_are_in_the_report(self, tmp_path: Path) -> None:
        path = tmp_path / "mine.tsv"
        path.write_text("a\tb\t1\nc\td\tnan\ne\tf\t2\ng\n", encoding="utf-8")
        report = file_task(path).report
        assert report is not None
        assert (report.kept, report.dropped) == (2, 2)
        assert (report.count(Fault.BAD_SCORE), report.count(Fault.WRONG_COLUMNS)) == (1, 1)

    def test_no_scores(self, tmp_path: Path) -> None:
        path = tmp_path / "mine.tsv"
        path.write_text("a\tb\nc\td\n", encoding="utf-8")
        with pytest.raises(InputError, match=r"mine.tsv: 2 of 2 pairs have no score; a task needs a third column"):
            file_task(path)

    def test_too_few_pairs(self, tmp_path: Path) -> None:
        path = tmp_path / "mine.tsv"
        path.write_text("a\tb\t1\nc\td\tx\n", encoding="utf-8")
        with pytest.raises(InputError, match="1 usable pairs found, a correlation needs at least 2") as caught:
            file_task(path)
        assert "score that is not a finite number" in str(caught.value)


class TestOwnTasks:
    def test_a_pair_without_a_score(self) -> None:
        with pytest.raises(InputError, match="x: 1 of 2 pairs have no score"):
            task(Pair("a", "b", 1), Pair("c", "d"))

    def test_too_few_pairs(self) -> None:
        with pytest.raises(InputError, match="x: 1 pairs, a correlation needs at least 2"):
            task(Pair("a", "b", 1))


class TestDataHash:
    def test_equal_data_equal_hash(self) -> None:
        by_hand = hashlib.sha256(b'"x"["a", "b", 1.0]["c", "d", 2.0]').hexdigest()[:16]
        assert task(Pair("a", "b", 1.0), Pair("c", "d", 2.0)).data_hash() == by_hand

    @pytest.mark.parametrize(
        "other",
        [
            [Pair("A", "b", 1.0), Pair("c", "d", 2.0)],
            [Pair("a", "b ", 1.0), Pair("c", "d", 2.0)],
            [Pair("a", "b", 1.0000001), Pair("c", "d", 2.0)],
            [Pair("c", "d", 2.0), Pair("a", "b", 1.0)],
            [Pair("a", "b", 1.0), Pair("c", "d", 2.0), Pair("c", "d", 2.0)],
        ],
    )
    def test_any_difference_shows(self, other: list[Pair]) -> None:
        assert task(*other).data_hash() != task(Pair("a", "b", 1.0), Pair("c", "d", 2.0)).data_hash()

    def test_the_subset_counts(self) -> None:
        pairs = [Pair("a", "b", 1.0), Pair("c", "d", 2.0)]
        assert task(*pairs, subset="x").data_hash() != task(*pairs, subset="y").data_hash()

    def test_tabs_inside_sentences_do_not_make_other_pairs_look_equal(self) -> None:
        last = Pair("c", "d", 2.0)
        assert task(Pair("a\tb", "c", 1.0), last).data_hash() != task(Pair("a", "b\tc", 1.0), last).data_hash()
