"""Refinement: a batch of lists, its judge's cosines, and the loss of Eq. 8 from both."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from losses_of import losses_of
from pydantic import ValidationError
from torch.nn.functional import normalize

from nearer.encoder import Encoder
from nearer.errors import InputError
from nearer.methods import Batch, Refinement, RefinementSettings
from nearer.objectives import fused_ranking
from nearer.text import read_pairs, read_ranking_lists

LISTS = [
    ["a man is eating lunch", "someone has a meal", "a lazy dog", "rain"],
    ["rain comes until the evening", "rain", "the quick brown fox", "far away"],
    ["a fox jumps", "a dog jumps over a fox", "rain again", "lunch is far away"],
]
SIZE = 4
Prepared = Callable[..., Refinement]


@pytest.fixture
def student(tiny_model: Callable[[str], Path]) -> Encoder:
    return Encoder.load(tiny_model("distilbert"), pooling="mean", device="cpu")


@pytest.fixture
def judges(tiny_model: Callable[[str], Path]) -> list[dict[str, str]]:
    return [
        {"model": str(tiny_model("roberta")), "pooling": "mean"},
        {"model": str(tiny_model("bert")), "pooling": "cls"},
    ]


@pytest.fixture
def lists(tmp_path: Path) -> Path:
    path = tmp_path / "lists.jsonl"
    path.write_text("".join(json.dumps({"sentences": sentences}) + "\n" for sentences in LISTS))
    return path


@pytest.fixture
def prepared(student: Encoder, judges: list[dict[str, str]], lists: Path) -> Prepared:
    def make(**settings: Any) -> Refinement:
        method = Refinement(RefinementSettings(**{"teachers": judges[:1], **settings}))
        assert method.prepare(student, read_ranking_lists(lists)) == []
        return method

    return make


def batch(records: list[int], size: int = SIZE, seed: int = 0) -> Batch:
    fields = [[np.array([2, 5 + record, 10 + place, 3]) for record in records] for place in range(size)]
    return Batch(fields, np.array(records), np.random.default_rng(seed + 99), np.random.default_rng(seed))


def given(method: Refinement, records: list[int], seed: int = 0) -> dict[str, torch.Tensor]:
    return {n: torch.from_numpy(array) for n, array in method.inputs(batch(records, seed=seed)).given.items()}


def views(lists: int, seed: int = 1) -> list[torch.Tensor]:
    random = torch.Generator().manual_seed(seed)
    return [torch.randn(lists, 8, generator=random) for _ in range(SIZE)]


def student_cosines(vectors: list[torch.Tensor]) -> torch.Tensor:
    units = normalize(torch.stack(vectors, dim=1), dim=-1)
    return units @ units.mT


def judge_cosines(judge: dict[str, str], records: list[int]) -> torch.Tensor:
    encoder = Encoder.load(judge["model"], pooling=judge["pooling"], device="cpu")
    vectors = [encoder.encode(LISTS[record], normalize=True) for record in records]
    # as they are kept
    units = normalize(torch.from_numpy(np.stack(vectors)).half().float(), dim=-1)
    return units @ units.mT


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"rank_strength": 0.9, "student_temperature": 1.0},
        {"variant": "released", "keep_diagonal": False},
    ],
    ids=str,
)
def test_the_loss_is_that_of_each_list_with_its_judges_cosines(
    prepared: Prepared, judges: list[dict[str, str]], settings: dict[str, Any]
) -> None:
    method = prepared(**settings)
    found = losses_of(method, views(2), given(method, [2, 0]))
    wanted = fused_ranking(student_cosines(views(2)), judge_cosines(judges[0], [2, 0]), **settings)
    torch.testing.assert_close(found.total, wanted)
    assert list(found.parts) == ["ranking"]
    torch.testing.assert_close(found.parts["ranking"], wanted)


def test_several_judges_are_averaged_and_their_temperature_divides_first(
    prepared: Prepared, judges: list[dict[str, str]]
) -> None:
    # the cosines of tiny models lie close together, and the logarithm of Eq. 7 is a line there
    method = prepared(teachers=judges, teacher_weights=[1, 3], teacher_temperature=1e-4, rank_strength=0.9)
    cosines = judge_cosines(judges[0], [1, 2]) / 4 + 3 * judge_cosines(judges[1], [1, 2]) / 4
    found = losses_of(method, views(2), given(method, [1, 2])).total
    student = student_cosines(views(2))
    torch.testing.assert_close(found, fused_ranking(student, cosines / 1e-4, rank_strength=0.9))
    assert found.item() != pytest.approx(fused_ranking(student, cosines, rank_strength=0.9).item(), rel=1e-3)


def test_several_lists_are_the_mean_of_single_ones(prepared: Prepared) -> None:
    method = prepared()
    vectors = views(3)
    together = losses_of(method, vectors, given(method, [1, 2, 0])).total
    alone = [
        losses_of(method, [view[place : place + 1] for view in vectors], given(method, [record])).total
        for place, record in enumerate([1, 2, 0])
    ]
    torch.testing.assert_close(together, torch.stack(alone).mean())


def test_each_sentence_of_a_list_passes_once(prepared: Prepared) -> None:
    inputs = prepared().inputs(batch([2, 1]))
    assert [[row[1:3].tolist() for row in view.rows] for view in inputs.passes.values()] == [
        [[7, 10 + place], [6, 10 + place]] for place in range(SIZE)
    ]
    assert inputs.given["teacher0"].shape[:2] == (2, SIZE)


def test_a_shuffled_list_is_judged_and_learnt_in_its_new_order(
    prepared: Prepared, judges: list[dict[str, str]]
) -> None:
    method = prepared(shuffle_lists=True, rank_strength=0.9)
    vectors = views(2)
    seen = set()
    for seed in range(6):
        drawn = given(method, [2, 0], seed)
        orders = drawn["order"].tolist()
        seen.add(str(orders))
        assert all(order[0] == 0 and sorted(order) == list(range(SIZE)) for order in orders)
        assert orders == given(method, [2, 0], seed)["order"].tolist()
        wanted = [
            fused_ranking(student[order][:, order], judge[order][:, order], rank_strength=0.9)
            for student, judge, order in zip(
                student_cosines(vectors), judge_cosines(judges[0], [2, 0]), orders, strict=True
            )
        ]
        torch.testing.assert_close(losses_of(method, vectors, drawn).total, torch.stack(wanted).mean())
    assert len(seen) > 2


def test_a_list_shuffled_once_keeps_its_order_whatever_the_step(prepared: Prepared) -> None:
    method = prepared(shuffle_lists="once")
    orders = given(method, [2, 0], seed=1)["order"].tolist()
    assert given(method, [0, 2], seed=5)["order"].tolist() == orders[::-1]
    assert all(order[0] == 0 and sorted(order) == list(range(SIZE)) for order in orders)
    assert len({str(given(method, [record])["order"].tolist()) for record in range(len(LISTS))}) > 1
    assert [RefinementSettings(shuffle_lists=value).shuffle_lists for value in (True, False)] == ["anew", "none"]  # type: ignore[arg-type]


def test_without_a_judge_the_model_before_training_is_one(student: Encoder, lists: Path) -> None:
    method = Refinement(RefinementSettings())
    [remark] = method.prepare(student, read_ranking_lists(lists))
    assert "the model as it is before training judges" in remark
    before = judge_cosines({"model": student.name, "pooling": "mean"}, [1])
    with torch.no_grad():
        for weight in student.parameters():
            weight.add_(0.1)
    found = losses_of(method, views(1), given(method, [1])).total
    torch.testing.assert_close(found, fused_ranking(student_cosines(views(1)), before))
    assert list(method.identity()) == [f"teacher 1: {student.name}"]
    assert method.describe()["teachers"] == [{"model": student.name, "pooling": "mean", "weight": 1.0}]
    assert student.device.type == "cpu"


def test_what_is_not_a_list_is_refused(prepared: Prepared, student: Encoder, tmp_path: Path) -> None:
    pairs = tmp_path / "pairs.tsv"
    pairs.write_text("a dog\ta fox\n")
    with pytest.raises(InputError, match="is read as pairs; refinement needs data=lists"):
        Refinement(RefinementSettings()).prepare(student, read_pairs(pairs))
    prepared().inputs(batch([0], size=2))
    with pytest.raises(InputError, match="lists of 2: leave nothing to rank; keep_diagonal=false"):
        prepared(keep_diagonal=False).inputs(batch([0], size=2))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"teachers": ["a"], "teacher_weights": [1, 2]}, "2 given for 1"),
        ({"teacher_weights": [1]}, "1 given for 0"),
        ({"rank_strength": -0.1}, "greater than or equal to 0"),
        ({"student_temperature": 0}, "greater than or equal to 0.0001"),
        ({"variant": "printed"}, "released"),
        ({"temperature": 0.05}, "temperature"),
    ],
    ids=str,
)
def test_settings_that_cannot_be_meant_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises((ValidationError, ValueError), match=message):
        RefinementSettings(**settings)
