"""Teachers' embeddings as a column: the right row for each sentence, every sentence encoded once."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from nearer.encoder import Encoder
from nearer.errors import InputError, SettingError
from nearer.integrations.sentence_transformers import teacher_labels

datasets = pytest.importorskip("datasets")


class Letters:
    """Embeds a text by how often it has each letter; keeps what it was asked."""

    def __init__(self, letters: str = "abc") -> None:
        self.letters = letters
        self.asked: list[str] = []

    def encode(self, sentences: list[str]) -> Any:
        self.asked += sentences
        return np.array([[text.count(letter) for letter in self.letters] for text in sentences], dtype=np.float32)


def data(**columns: list[Any]) -> Any:
    return datasets.Dataset.from_dict(columns)


def unit(*values: float) -> list[float]:
    return [value / np.linalg.norm(values) for value in values]


def test_each_row_has_its_sentence_s_embedding() -> None:
    teacher = Letters()
    found = teacher_labels(data(sentence=["aab", "c", "aab", "b"]), teacher)
    assert found.column_names == ["sentence", "label"]
    assert found["label"][:] == [pytest.approx(unit(*row)) for row in ((2, 1, 0), (0, 0, 1), (2, 1, 0), (0, 1, 0))]
    assert teacher.asked == ["aab", "c", "b"]


def test_two_columns() -> None:
    teacher = Letters()
    found = teacher_labels(
        data(anchor=["a", "ab"], positive=["ab", "c"], other=["x", "y"]), teacher, ("anchor", "positive")
    )
    assert np.array(found["label"][:]).shape == (2, 2, 3)
    assert found[0]["label"] == [pytest.approx(unit(1, 0, 0)), pytest.approx(unit(1, 1, 0))]
    assert found[1]["label"] == [pytest.approx(unit(1, 1, 0)), pytest.approx(unit(0, 0, 1))]
    assert teacher.asked == ["a", "ab", "c"]


@pytest.mark.parametrize(
    ("weights", "shares"), [((1 / 3, 2 / 3), (1 / 3, 2 / 3)), ((3, 1), (0.75, 0.25)), (None, (0.5, 0.5))]
)
def test_the_cosine_of_two_teachers_labels_is_the_weighted_mean_of_their_cosines(weights: Any, shares: Any) -> None:
    texts = ["aab", "abcd", "ccdd", "bcd"]
    first, second = Letters("abc"), Letters("bcdx")
    labels = np.array(teacher_labels(data(sentence=texts), [first, second], weights=weights)["label"][:])
    cosines = []
    for teacher in (first, second):
        rows = teacher.encode(texts)
        rows = rows / np.linalg.norm(rows, axis=1, keepdims=True)
        cosines.append(rows @ rows.T)
    np.testing.assert_allclose(labels @ labels.T, shares[0] * cosines[0] + shares[1] * cosines[1], atol=1e-6)


def test_encoders_and_sentence_transformers_teach_alike(
    student: Any, student_folder: Path, sentences: list[str]
) -> None:
    encoder = Encoder.load(student_folder, device="cpu")
    texts = data(sentence=sentences)
    ours, theirs = (teacher_labels(texts, teacher)["label"][:] for teacher in (encoder, student))
    np.testing.assert_allclose(ours, theirs, atol=1e-5)


def test_tensors_are_taken_too() -> None:
    class Half:
        def encode(self, sentences: list[str]) -> torch.Tensor:
            return torch.ones(len(sentences), 4, dtype=torch.bfloat16, requires_grad=True)

    assert teacher_labels(data(sentence=["a"]), Half())["label"][0] == [0.5] * 4


def replying(reply: Callable[[list[str]], Any]) -> Any:
    class Teacher:
        encode = staticmethod(reply)

    return Teacher()


@pytest.mark.parametrize(
    ("reply", "message"),
    [
        (lambda texts: np.ones(3), r"teacher: embeddings must be \(2, dimension\); Teacher gave \(3,\)"),
        (lambda texts: np.ones((1, 3)), r"teacher: embeddings must be \(2, dimension\); Teacher gave \(1, 3\)"),
        (lambda texts: np.array([[1.0], [np.nan]]), "teacher: its embedding of 'b' holds values that are not finite"),
    ],
)
def test_what_a_teacher_gives_is_checked(reply: Callable[[list[str]], Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        teacher_labels(data(sentence=["a", "b"]), replying(reply))


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ((data(text=["a"]), Letters()), SettingError, "column: 'sentence' is not in the data set, which has text"),
        ((data(a=["a"]), Letters(), ("a", "a", "a")), SettingError, "column: must be one text column or two"),
        ((data(sentence=["a"], label=[1]), Letters()), InputError, "dataset: has a column 'label' already"),
        ((data(sentence=[]), Letters()), InputError, "dataset: has no rows"),
        ((data(sentence=["a", None]), Letters()), InputError, "dataset: column 'sentence', row 1: no text but None"),
        ((["a", "b"], Letters()), InputError, "dataset: must be a datasets.Dataset, held whole; list given"),
        (
            (data(sentence=["a"]), "mini"),
            SettingError,
            r"teacher: 'mini' is a name; nearer.Encoder.load\('mini'\) loads",
        ),
        ((data(sentence=["a"]), 3), SettingError, r"teacher: int has no encode\(sentences\)"),
        ((data(sentence=["a"]), []), SettingError, "weights: one for each teacher"),
    ],
)
def test_arguments_are_checked(arguments: tuple[Any, ...], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        teacher_labels(*arguments)


@pytest.mark.parametrize("weights", [(1.0,), (1.0, 0.0), (1.0, float("nan"))])
def test_weights_are_checked(weights: tuple[float, ...]) -> None:
    with pytest.raises(SettingError, match="weights: "):
        teacher_labels(data(sentence=["a"]), [Letters(), Letters()], weights=weights)
