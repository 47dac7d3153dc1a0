"""The real STS sets, where they are at hand: every task loads from both layouts with all its pairs."""

from __future__ import annotations

from pathlib import Path

import pytest

from nearer.evaluation import PairTask
from nearer.evaluation.sts_data import load_sts
from nearer.evaluation.sts_sets import TASKS

LAYOUTS = {"senteval": "senteval", "raw": "sts_raw"}
PAIRS = {
    "sts12": 3108,
    "sts13": 1500,
    "sts14": 3750,
    "sts15": 3000,
    "sts16": 1186,
    "stsb": 1379,
    "stsb-dev": 1500,
    "stsb-train": 5749,
    "sick-r": 4927,
    "sick-r-dev": 500,
    "sick-r-train": 4500,
    "sick-r-all": 9927,
}


@pytest.fixture(scope="module", params=list(LAYOUTS))
def tasks(request: pytest.FixtureRequest, shared_data: Path) -> dict[str, PairTask]:
    return dict(zip(TASKS, load_sts(TASKS, shared_data / LAYOUTS[request.param]), strict=True))


def test_all_pairs_are_there(tasks: dict[str, PairTask]) -> None:
    assert {name: len(task.pairs) for name, task in tasks.items()} == PAIRS


def test_every_pair_has_two_sentences_and_a_score_of_its_scale(tasks: dict[str, PairTask]) -> None:
    for name, task in tasks.items():
        lowest = 1 if name.startswith("sick") else 0
        assert all(pair.first and pair.second and lowest <= pair.score <= 5 for pair in task.pairs), name


def test_the_whole_of_sick_is_its_three_splits(tasks: dict[str, PairTask]) -> None:
    splits = [tasks[name].pairs for name in ("sick-r-train", "sick-r-dev", "sick-r")]
    assert tasks["sick-r-all"].pairs == [pair for pairs in splits for pair in pairs]


def test_both_layouts_have_the_same_gold_scores(shared_data: Path) -> None:
    senteval, raw = (load_sts(TASKS, shared_data / folder) for folder in LAYOUTS.values())
    for ours, theirs in zip(senteval, raw, strict=True):
        assert list(ours.subsets) == list(theirs.subsets)
        scores = [[pair.score for pair in task.pairs] for task in (ours, theirs)]
        assert scores[0] == scores[1], ours.name


def test_the_data_hash_is_stable_and_notices_one_character(shared_data: Path) -> None:
    [task], [again], [other] = (load_sts(["sts16"], shared_data / name) for name in ("sts_raw", "sts_raw", "senteval"))
    assert task.data_hash() == again.data_hash()
    assert task.data_hash() != other.data_hash()
    subset = task.subsets["plagiarism"]
    subset[100] = subset[100]._replace(second=subset[100].second + ".")
    assert task.data_hash() != again.data_hash()
