"""RankCSE: the sum of Eq. 6 from a batch's vectors and its teachers', and what a run of it depends on."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from losses_of import losses_of
from pydantic import ValidationError

from nearer.encoder import Encoder
from nearer.errors import InputError
from nearer.methods import Batch, RankCSE, RankCSESettings
from nearer.objectives import info_nce, list_mle, list_net, ranking_consistency
from nearer.text import read_sentences

TEXTS = ["a man is eating lunch", "rain", "the quick brown fox jumps", "rain", "someone has a meal again", "a lazy dog"]
Prepared = Callable[..., RankCSE]


@pytest.fixture
def teachers(tiny_model: Callable[[str], Path]) -> list[dict[str, str]]:
    return [
        {"model": str(tiny_model("bert")), "pooling": "mean"},
        {"model": str(tiny_model("roberta")), "pooling": "cls"},
    ]


@pytest.fixture
def prepared(tiny_model: Callable[[str], Path], teachers: list[dict[str, str]], tmp_path: Path) -> Prepared:
    corpus = tmp_path / "corpus.txt"
    corpus.write_text("\n".join(TEXTS) + "\n")

    def make(**settings: Any) -> RankCSE:
        method = RankCSE(RankCSESettings(**{"teachers": teachers, **settings}))
        student = Encoder.load(tiny_model("distilbert"), pooling="mean", device="cpu")
        assert method.prepare(student, read_sentences(corpus)) == []
        return method

    return make


def batch(records: list[int], seed: int = 0) -> Batch:
    rows = [np.array([2, 5 + record, 3]) for record in records]
    random = np.random.default_rng(seed)
    return Batch([rows], np.array(records), random, np.random.default_rng(seed))


def given(method: RankCSE, records: list[int]) -> dict[str, torch.Tensor]:
    return {name: torch.from_numpy(array) for name, array in method.inputs(batch(records)).given.items()}


def teacher_cosines(teacher: dict[str, str], records: list[int]) -> torch.Tensor:
    encoder = Encoder.load(teacher["model"], pooling=teacher["pooling"], device="cpu")
    vectors = encoder.encode([TEXTS[record] for record in records], normalize=True)
    return torch.from_numpy(vectors @ vectors.T)


def views(rows: int) -> list[torch.Tensor]:
    random = torch.Generator().manual_seed(1)
    first = torch.randn(rows, 8, generator=random)
    return [first, first + 0.3 * torch.randn(rows, 8, generator=random)]


@pytest.mark.parametrize("ranking", ["list_net", "list_mle"])
def test_the_loss_is_the_weighted_sum_with_the_teachers_weighted_cosines(
    prepared: Prepared, teachers: list[dict[str, str]], ranking: str
) -> None:
    method = prepared(ranking=ranking, teacher_weights=[1, 2], consistency_weight=0.7, ranking_weight=1.3)
    records = [4, 0, 2, 5]
    one, two = views(4)
    found = losses_of(method, [one, two], given(method, records))
    scores = torch.nn.functional.normalize(one, dim=-1) @ torch.nn.functional.normalize(two, dim=-1).T
    wanted = teacher_cosines(teachers[0], records) / 3 + 2 * teacher_cosines(teachers[1], records) / 3
    parts = {"contrastive": info_nce(one, two), "consistency": ranking_consistency(scores)}
    if ranking == "list_net":
        parts["ranking"] = list_net(scores, wanted, student_temperature=0.025, teacher_temperature=0.0125)
    else:
        parts["ranking"] = list_mle(scores, wanted, student_temperature=0.025)
    for name, part in parts.items():
        # teachers' vectors are kept in float16
        torch.testing.assert_close(found.parts[name], part, atol=0.02 if name == "ranking" else 1e-5, rtol=0.02)
    total = found.parts["contrastive"] + 0.7 * found.parts["consistency"] + 1.3 * found.parts["ranking"]
    torch.testing.assert_close(found.total, total)


def test_a_weight_of_zero_leaves_its_part_out(prepared: Prepared) -> None:
    vectors = views(4)
    method = prepared(consistency_weight=0, contrastive_weight=0)
    found = losses_of(method, vectors, given(method, [0, 1, 2, 4]))
    torch.testing.assert_close(found.total, found.parts["ranking"])
    assert "consistency" not in found.parts
    alone = prepared(ranking_weight=0, teachers=[])
    assert alone.inputs(batch([0, 1])).given == {}
    assert set(losses_of(alone, vectors, {}).parts) == {"contrastive", "consistency"}
    assert alone.identity() == {}


def test_equal_sentences_are_put_in_an_order_drawn_by_the_step(prepared: Prepared) -> None:
    """Records 1 and 3 are the same sentence: a teacher finds them equally near to all others."""
    method = prepared(ranking="list_mle")
    vectors = views(4)
    losses = set()
    for seed in range(8):
        draws = method.inputs(batch([0, 1, 2, 3], seed)).given
        losses.add(
            round(float(losses_of(method, vectors, {n: torch.from_numpy(a) for n, a in draws.items()}).total), 5)
        )
        again = method.inputs(batch([0, 1, 2, 3], seed)).given
        np.testing.assert_array_equal(again["tie_breaker"], draws["tie_breaker"])
    assert len(losses) == 2  # the two orders, and nothing else, make a difference


def test_both_views_pass_the_encoder_and_teachers_rows_are_those_of_the_batch(prepared: Prepared) -> None:
    inputs = prepared().inputs(batch([3, 1]))
    assert [len(view.rows) for view in inputs.passes.values()] == [2, 2]
    assert inputs.given["teacher0"].dtype == np.float16
    np.testing.assert_array_equal(inputs.given["teacher0"][0], inputs.given["teacher0"][1])  # the same sentence


def test_pairs_are_refused(prepared: Prepared) -> None:
    rows = [np.array([2, 5, 3])]
    with pytest.raises(InputError, match="sentences alone"):
        prepared().inputs(Batch([rows, rows], np.array([0]), np.random.default_rng(0), np.random.default_rng(0)))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({}, "none named"),
        ({"teachers": ["a"], "teacher_weights": [1, 2]}, "2 given for 1"),
        ({"teachers": ["a", "b"], "teacher_weights": [-1, 2]}, "below 0"),
        ({"teachers": ["a"], "teacher_weights": [0]}, "all 0"),
        ({"teachers": [{"model": "a", "poling": "cls"}]}, "poling"),
        ({"ranking_weight": 0, "consistency_weight": 0, "contrastive_weight": 0}, "all 0"),
        ({"teachers": ["a"], "ranking": "list_nett"}, "list_net"),
        ({"teachers": ["a"], "student_temperature": 0}, "greater than or equal to 0.0001"),
    ],
    ids=str,
)
def test_settings_that_cannot_be_meant_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises((ValidationError, ValueError), match=message):
        RankCSESettings(**settings)


def test_what_a_run_learns_from_is_named_by_its_content(prepared: Prepared, teachers: list[dict[str, str]]) -> None:
    identity = prepared().identity()
    assert list(identity) == [f"teacher {n}: {teacher['model']}" for n, teacher in enumerate(teachers, 1)]
    assert identity == prepared().identity()
    other = prepared(teachers=[{**teachers[0], "pooling": "cls"}, teachers[1]]).identity()
    changed = [name for name in identity if identity[name] != other[name]]
    assert changed == [f"teacher 1: {teachers[0]['model']}"]
