"""What is wrong with columns, labels and settings is said in one line."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from table_model import TableModel, column, vectors
from torch import Tensor

from nearer.errors import InputError, SettingError
from nearer.integrations.sentence_transformers import (
    ListMLELoss,
    ListNetLoss,
    RankCSELoss,
    RankingConsistencyLoss,
)

MODEL = TableModel(vectors(9, 4, seed=1))
TEACHER = vectors(2, 5, seed=2)
PAIRS, LIST = [column(0, 1), column(2, 3)], [column(0, 1), column(2, 3), column(4, 5)]
BROKEN = TEACHER.clone()
BROKEN[1, 3] = torch.nan


def fault(loss: Any, columns: list[dict[str, Tensor]], labels: Tensor | None) -> str:
    with pytest.raises(InputError) as caught:
        loss(columns, labels)
    message = str(caught.value)
    assert "\n" not in message
    return message


@pytest.mark.parametrize("loss_class", [ListNetLoss, ListMLELoss, RankCSELoss])
class TestEmbeddings:
    def test_none(self, loss_class: Any) -> None:
        assert fault(loss_class(MODEL), PAIRS, None).startswith(
            "labels: none found; the data set needs a column 'label'"
        )

    def test_not_finite(self, loss_class: Any) -> None:
        assert fault(loss_class(MODEL), PAIRS, BROKEN).startswith("labels: hold values that are not finite")
        endless = torch.full((2, 5), torch.inf)
        assert fault(loss_class(MODEL), PAIRS, endless).startswith("labels: hold values that are not finite")

    @pytest.mark.parametrize("shape", [(2,), (2, 3, 5), (2, 2, 2, 5)])
    def test_wrong_shape(self, loss_class: Any, shape: tuple[int, ...]) -> None:
        message = fault(loss_class(MODEL), PAIRS, torch.ones(shape))
        assert message.startswith("labels: the teacher's embeddings must be (2, dimension)")
        assert f"{shape} found" in message

    @pytest.mark.parametrize("shape", [(), (3, 5)])
    def test_wrong_number_of_rows(self, loss_class: Any, shape: tuple[int, ...]) -> None:
        assert fault(loss_class(MODEL), PAIRS, torch.ones(shape)).startswith("labels: must have 2 rows")


@pytest.mark.parametrize("loss_class", [ListNetLoss, ListMLELoss, RankingConsistencyLoss, RankCSELoss])
class TestColumns:
    def test_too_many(self, loss_class: Any) -> None:
        assert fault(loss_class(MODEL), LIST, TEACHER).startswith(f"{loss_class.__name__}: 3 text columns found")

    def test_none(self, loss_class: Any) -> None:
        assert fault(loss_class(MODEL), [], TEACHER).startswith(f"{loss_class.__name__}: 0 text columns found")

    @pytest.mark.parametrize("columns", [[column(0)], [column(0), column(1)]])
    def test_a_batch_of_one(self, loss_class: Any, columns: list[dict[str, Tensor]]) -> None:
        message = fault(loss_class(MODEL), columns, TEACHER[:1])
        assert message.startswith("batch: 1 sentence")
        assert "dataloader_drop_last=True" in message


@pytest.mark.parametrize("loss_class", [ListNetLoss, ListMLELoss])
class TestScores:
    def test_a_list_of_one(self, loss_class: Any) -> None:
        message = fault(loss_class(MODEL, labels="scores"), PAIRS, torch.ones(2, 1))
        assert message.startswith(f"{loss_class.__name__}: 2 text columns found; labels='scores'")

    def test_none(self, loss_class: Any) -> None:
        assert fault(loss_class(MODEL, labels="scores"), LIST, None).startswith("labels: none found")

    @pytest.mark.parametrize("shape", [(2,), (2, 3), (2, 2, 1)])
    def test_wrong_shape(self, loss_class: Any, shape: tuple[int, ...]) -> None:
        message = fault(loss_class(MODEL, labels="scores"), LIST, torch.ones(shape))
        assert message.startswith("labels: the teacher's scores must be (2, 2)")

    def test_not_finite(self, loss_class: Any) -> None:
        message = fault(loss_class(MODEL, labels="scores"), LIST, BROKEN[:, 2:4])
        assert message.startswith("labels: hold values that are not finite")

    def test_one_query_is_enough(self, loss_class: Any) -> None:
        loss = loss_class(MODEL, labels="scores")([column(0), column(1), column(2)], torch.tensor([[0.1, 0.2]]))
        assert torch.isfinite(loss)


@pytest.mark.parametrize(
    ("loss_class", "settings", "message"),
    [
        (ListNetLoss, {"labels": "vectors"}, "labels: 'vectors' is not one of embeddings, scores."),
        (ListMLELoss, {"labels": None}, "labels: None is not one of"),
        (ListNetLoss, {"student_temperature": 0}, "student_temperature: must be a number above 0; 0 given."),
        (ListNetLoss, {"teacher_temperature": -1.0}, "teacher_temperature: must be a number above 0"),
        (ListMLELoss, {"student_temperature": "0.05"}, "student_temperature: must be a number above 0"),
        (ListMLELoss, {"seed": 0.5}, "seed: must be a whole number"),
        (ListMLELoss, {"keep_diagonal": "no"}, "keep_diagonal: must be True or False"),
        (RankingConsistencyLoss, {"temperature": float("nan")}, "temperature: must be a number above 0"),
        (RankCSELoss, {"ranking": "listnet"}, "ranking: 'listnet' is not one of list_net, list_mle."),
        (RankCSELoss, {"temperature": 0}, "temperature: must be a number above 0"),
        (RankCSELoss, {"teacher_temperature": 0}, "teacher_temperature: must be a number above 0"),
        (RankCSELoss, {"ranking_weight": -1}, "ranking_weight: must be a number, 0 or above"),
        (RankCSELoss, {"ranking": "list_mle", "teacher_temperature": 0.1}, "teacher_temperature: list_mle looks at"),
        (
            RankCSELoss,
            {"contrastive_weight": 0, "consistency_weight": 0, "ranking_weight": 0},
            "contrastive_weight, consistency_weight, ranking_weight: all are 0",
        ),
    ],
)
def test_settings(loss_class: Any, settings: dict[str, Any], message: str) -> None:
    with pytest.raises(SettingError) as caught:
        loss_class(MODEL, **settings)
    assert str(caught.value).startswith(message)
