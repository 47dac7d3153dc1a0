"""The losses for sentence-transformers give what the objectives give on the same embeddings, from one encoding."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from table_model import TableModel, column, vectors
from torch import Tensor

from nearer.errors import MissingExtraError
from nearer.integrations import loss_base
from nearer.integrations.sentence_transformers import (
    ListMLELoss,
    ListNetLoss,
    RankCSELoss,
    RankingConsistencyLoss,
)
from nearer.objectives import info_nce, list_mle, list_net, ranking_consistency

TABLE = vectors(10, 6, seed=1)
FIRST, SECOND = (0, 1, 2, 3), (4, 5, 6, 7)
PAIRS = [column(*FIRST), column(*SECOND)]
TEACHER = vectors(4, 9, seed=2)  # another dimension than the student's


def cosines(first: Tensor, second: Tensor) -> Tensor:
    """Pair by pair, in float64."""
    rows = [[float(a @ b / a.norm() / b.norm()) for b in second.double()] for a in first.double()]
    return torch.tensor(rows)


STUDENT_SCORES = cosines(TABLE[:4], TABLE[4:8])
TEACHER_SCORES = cosines(TEACHER, TEACHER)


def value(loss: Any, columns: list[dict[str, Tensor]], labels: Tensor | None = None) -> float:
    return float(loss(columns, labels).detach())


@pytest.mark.parametrize("keep_diagonal", [True, False])
@pytest.mark.parametrize("temperatures", [{}, {"student_temperature": 0.2, "teacher_temperature": 0.3}])
def test_list_net_in_the_batch(keep_diagonal: bool, temperatures: dict[str, float]) -> None:
    loss = ListNetLoss(TableModel(TABLE), keep_diagonal=keep_diagonal, **temperatures)
    expected = list_net(STUDENT_SCORES, TEACHER_SCORES, keep_diagonal=keep_diagonal, **temperatures)
    assert value(loss, PAIRS, TEACHER) == pytest.approx(float(expected), rel=1e-4)


@pytest.mark.parametrize("keep_diagonal", [True, False])
@pytest.mark.parametrize("temperatures", [{}, {"student_temperature": 0.2}])
def test_list_mle_in_the_batch(keep_diagonal: bool, temperatures: dict[str, float]) -> None:
    loss = ListMLELoss(TableModel(TABLE), keep_diagonal=keep_diagonal, **temperatures)
    expected = list_mle(STUDENT_SCORES, TEACHER_SCORES, keep_diagonal=keep_diagonal, **temperatures)
    assert value(loss, PAIRS, TEACHER) == pytest.approx(float(expected), rel=1e-4)


@pytest.mark.parametrize(("loss_class", "objective"), [(ListNetLoss, list_net), (ListMLELoss, list_mle)])
def test_labels_of_anchors_and_positives(loss_class: Any, objective: Any) -> None:
    """Row i is the teacher's anchor i against its positives."""
    positives = vectors(4, 9, seed=3)
    found = value(loss_class(TableModel(TABLE)), PAIRS, torch.stack([TEACHER, positives], dim=1))
    assert found == pytest.approx(float(objective(STUDENT_SCORES, cosines(TEACHER, positives))), rel=1e-4)


@pytest.mark.parametrize(("loss_class", "objective"), [(ListNetLoss, list_net), (ListMLELoss, list_mle)])
def test_lists_with_the_teacher_s_scores(loss_class: Any, objective: Any) -> None:
    """Two queries, three candidates each; nothing is left out, though nothing is as wide as high either."""
    columns = [column(0, 1), column(2, 3), column(4, 5), column(6, 7)]
    scores = torch.tensor([[0.3, 0.9, 0.1], [0.2, 0.4, 0.8]])
    expected = torch.cat([cosines(TABLE[[0]], TABLE[[2, 4, 6]]), cosines(TABLE[[1]], TABLE[[3, 5, 7]])])
    found = value(loss_class(TableModel(TABLE), labels="scores"), columns, scores)
    assert found == pytest.approx(float(objective(expected, scores, keep_diagonal=True)), rel=1e-4)


def test_square_lists_keep_their_diagonal_too() -> None:
    columns, scores = [column(0, 1), column(2, 3), column(4, 5)], torch.tensor([[0.3, 0.9], [0.8, 0.2]])
    expected = torch.cat([cosines(TABLE[[0]], TABLE[[2, 4]]), cosines(TABLE[[1]], TABLE[[3, 5]])])
    found = value(ListMLELoss(TableModel(TABLE), labels="scores"), columns, scores)
    assert found == pytest.approx(float(list_mle(expected, scores, keep_diagonal=True)), rel=1e-4)
    assert value(ListMLELoss(TableModel(TABLE), labels="scores"), columns, (10 * scores).long()) == pytest.approx(found)


@pytest.mark.parametrize("temperature", [0.05, 0.5])
def test_ranking_consistency(temperature: float) -> None:
    loss = RankingConsistencyLoss(TableModel(TABLE), temperature=temperature)
    expected = float(ranking_consistency(STUDENT_SCORES, temperature=temperature))
    assert value(loss, PAIRS) == pytest.approx(expected, rel=1e-4)
    assert value(loss, PAIRS, torch.tensor([float("nan")])) == pytest.approx(expected, rel=1e-4)  # not looked at


@pytest.mark.parametrize(("ranking", "objective"), [("list_net", list_net), ("list_mle", list_mle)])
def test_rankcse_is_the_weighted_sum(ranking: Any, objective: Any) -> None:
    weights = {"contrastive_weight": 0.5, "consistency_weight": 2.0, "ranking_weight": 3.0}
    expected = {
        "contrastive": 0.5 * float(info_nce(TABLE[:4], TABLE[4:8], temperature=0.1)),
        "consistency": 2.0 * float(ranking_consistency(STUDENT_SCORES, temperature=0.1)),
        "ranking": 3.0 * float(objective(STUDENT_SCORES, TEACHER_SCORES)),
    }
    parts = RankCSELoss(TableModel(TABLE), ranking, temperature=0.1, log_parts=True, **weights)(PAIRS, TEACHER)
    assert {name: float(part.detach()) for name, part in parts.items()} == pytest.approx(expected, rel=1e-4)
    loss = RankCSELoss(TableModel(TABLE), ranking, temperature=0.1, **weights)
    assert value(loss, PAIRS, TEACHER) == pytest.approx(sum(expected.values()), rel=1e-4)


def test_rankcse_s_temperatures_and_diagonal_reach_the_ranking() -> None:
    settings = {"student_temperature": 0.2, "teacher_temperature": 0.3, "keep_diagonal": True}
    loss = RankCSELoss(TableModel(TABLE), contrastive_weight=0, consistency_weight=0, **settings)
    expected = float(list_net(STUDENT_SCORES, TEACHER_SCORES, **settings))
    assert value(loss, PAIRS, TEACHER) == pytest.approx(expected, rel=1e-4)


def test_without_ranking_no_labels_are_needed() -> None:
    loss = RankCSELoss(TableModel(TABLE), ranking_weight=0, log_parts=True)
    assert list(loss(PAIRS)) == ["contrastive", "consistency"]


@pytest.mark.parametrize("loss_class", [ListNetLoss, ListMLELoss, RankingConsistencyLoss, RankCSELoss])
def test_one_column_passes_together_with_itself_and_dropout_makes_two_views(loss_class: Any) -> None:
    model = TableModel(TABLE, dropout=0.3)
    loss = loss_class(model)
    found = loss([column(*FIRST)], TEACHER)
    [both] = model.outputs  # one encoding
    first, second = both[:4], both[4:]
    assert not torch.equal(first, second)
    assert float(found) == pytest.approx(float(loss.compute_loss_from_embeddings([first, second], TEACHER)), rel=1e-5)


@pytest.mark.parametrize("loss_class", [ListNetLoss, ListMLELoss, RankingConsistencyLoss, RankCSELoss])
def test_the_gradient_reaches_both_views_and_no_labels(loss_class: Any) -> None:
    model, labels = TableModel(TABLE), TEACHER.clone().requires_grad_()
    loss_class(model)(PAIRS, labels).backward()
    moved = model.table.grad.abs().sum(dim=1) > 0
    assert moved.tolist() == [True] * 8 + [False] * 2
    assert labels.grad is None


def test_the_gradient_reaches_queries_and_candidates() -> None:
    model = TableModel(TABLE)
    ListNetLoss(model, labels="scores", student_temperature=1)(
        [column(0), column(2), column(4)], torch.tensor([[0.5, 0.6]])
    ).backward()
    assert (model.table.grad.abs().sum(dim=1) > 0).nonzero().flatten().tolist() == [0, 2, 4]


class TestTies:
    LABELS = torch.ones(4, 9)  # the teacher finds all alike

    def draws(self, seed: int, loss_class: Any = ListMLELoss, **settings: Any) -> list[float]:
        loss = loss_class(TableModel(TABLE), seed=seed, **settings)
        return [value(loss, PAIRS, self.LABELS) for _ in range(3)]

    def test_a_seed_gives_the_same_orders(self) -> None:
        torch.manual_seed(0)
        first = self.draws(5)
        torch.manual_seed(1)  # what others draw is of no account
        assert self.draws(5) == first
        assert len(set(first)) > 1
        assert self.draws(6) != first

    def test_in_rankcse_too(self) -> None:
        assert self.draws(5, RankCSELoss, ranking="list_mle") == self.draws(5, RankCSELoss, ranking="list_mle")
        assert self.draws(5, RankCSELoss, ranking="list_mle") != self.draws(6, RankCSELoss, ranking="list_mle")

    def test_the_order_is_drawn_from_the_seed(self) -> None:
        drawn = torch.rand(4, 4, generator=torch.Generator().manual_seed(5))
        expected = float(list_mle(STUDENT_SCORES, torch.ones(4, 4), tie_breaker=drawn))
        assert self.draws(5)[0] == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize("loss_class", [ListNetLoss, ListMLELoss, RankingConsistencyLoss, RankCSELoss])
def test_mixed_precision_does_not_round_the_cosines(loss_class: Any) -> None:
    plain = value(loss_class(TableModel(TABLE)), PAIRS, TEACHER)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert value(loss_class(TableModel(TABLE)), PAIRS, TEACHER) == plain
    model = TableModel(TABLE.bfloat16())
    found = loss_class(model)(PAIRS, TEACHER)
    assert found.dtype == torch.float32
    exact = value(loss_class(TableModel(TABLE.bfloat16().float())), PAIRS, TEACHER)
    assert float(found) == pytest.approx(exact, rel=1e-5)


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.int64])
def test_labels_of_any_type_are_compared_in_float32(dtype: torch.dtype) -> None:
    labels = (4 * TEACHER).round()  # the same in all types
    found = ListNetLoss(TableModel(TABLE))(PAIRS, labels.to(dtype))
    assert found.dtype == torch.float32
    assert float(found.detach()) == value(ListNetLoss(TableModel(TABLE)), PAIRS, labels)


@pytest.mark.parametrize(
    ("loss_class", "settings"),
    [
        (ListNetLoss, {"labels": "scores", "student_temperature": 0.3, "teacher_temperature": 0.4}),
        (ListMLELoss, {"labels": "scores", "student_temperature": 0.3, "keep_diagonal": True, "seed": 3}),
        (RankingConsistencyLoss, {"temperature": 0.3}),
        (RankCSELoss, {"ranking": "list_mle", "student_temperature": 0.3, "ranking_weight": 0.5, "seed": 3}),
        (RankCSELoss, {"teacher_temperature": 0.3, "log_parts": True, "temperature": 0.2}),
    ],
)
def test_the_configuration_makes_the_loss_again(loss_class: Any, settings: dict[str, Any]) -> None:
    made = loss_class(TableModel(TABLE), **settings)
    said = made.get_config_dict()
    assert settings.items() <= said.items()
    assert loss_class(TableModel(TABLE), **said).get_config_dict() == said
    assert "RankCSE" in made.citation.replace("{", "").replace("}", "")


def test_defaults_are_the_paper_s() -> None:
    """RankCSE, Table 7, BERT-base."""

    def temperatures(loss: Any) -> list[float]:
        said = loss.get_config_dict()
        return [said[name] for name in ("temperature", "student_temperature", "teacher_temperature") if name in said]

    model = TableModel(TABLE)
    assert temperatures(ListNetLoss(model)) == [0.025, 0.0125]
    assert temperatures(ListMLELoss(model)) == [0.05]
    assert temperatures(RankingConsistencyLoss(model)) == [0.05]
    assert temperatures(RankCSELoss(model)) == [0.05, 0.025, 0.0125]
    assert temperatures(RankCSELoss(model, "list_mle")) == [0.05, 0.05]


def as_loaded_without(module: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A second copy of the losses' base, loaded as if a module were not there."""
    monkeypatch.setitem(sys.modules, module, None)
    spec = importlib.util.spec_from_file_location("loss_base_again", Path(loss_base.__file__))
    assert spec is not None
    assert spec.loader is not None
    again = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(again)
    return again


def test_older_versions_pass_column_by_column(monkeypatch: pytest.MonkeyPatch) -> None:
    again = as_loaded_without("sentence_transformers.base.losses.merged_forward", monkeypatch)
    model = TableModel(TABLE, dropout=0.3)
    found = again.LossBase(model).embed([column(*FIRST)])
    assert [torch.equal(a, b) for a, b in zip(found, model.outputs, strict=True)] == [True, True]
    assert not torch.equal(*found)


def test_without_sentence_transformers_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(MissingExtraError, match=r"pip install .*\[sentence-transformers\]'"):
        as_loaded_without("sentence_transformers", monkeypatch)
