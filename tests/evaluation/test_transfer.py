"""A transfer task from sentences' vectors to its score."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from table_scorer import TableScorer

from nearer.errors import InputError, SettingError
from nearer.evaluation.transfer import Example, TransferTask, f1_percent, in_order

CLASSES = ("bad", "good")


def sentence(number: int) -> str:
    return f"sentence number {number}"


def examples(first: int, count: int, texts: int = 1) -> list[Example]:
    """Every third is of class 1."""
    return [
        Example(tuple(sentence(texts * number + text) for text in range(texts)), int(number % 3 == 0))
        for number in range(first, first + count)
    ]


def task(**changes: object) -> TransferTask:
    given = TransferTask("Thing", "nested folds", CLASSES, examples(0, 60), [], [], setting="fast", device="cpu")
    return replace(given, **changes)  # type: ignore[arg-type]


PAIRS = {"design": "folds", "train": examples(0, 300, 2), "test": examples(300, 30, 2)}


def scorer(given: TransferTask, *, learnable: bool = True) -> TableScorer:
    """Vectors that tell the classes apart; of a pair, both together do."""
    random, table = np.random.RandomState(0), {}
    for example in (*given.train, *given.dev, *given.test):
        for place, text in enumerate(example.texts):
            noise = random.normal(size=4) / 10
            sign = (2 * example.label - 1) if learnable else 0
            table[text] = (noise + np.array([1.0 if place else sign, sign, 0, 0])).tolist()
    return TableScorer(table)


def score(given: TransferTask):  # type: ignore[no-untyped-def]
    model = scorer(given)
    return given.score(model, model.vectors(given))


class TestScore:
    def test_folds_of_sentences(self) -> None:
        found = score(task())
        assert (found.task, found.kind, found.split, found.unit, found.count) == (
            *("Thing", "transfer", "5-fold", "sentences"),
            60,
        )
        assert found.measure == "accuracy"
        assert found.score == found.figures["accuracy"] == 100
        assert found.figures["dev accuracy"] == 100
        assert found.details["fits"] == 5 * 5 * 4 + 5
        assert found.details["fold accuracies"] == [100] * 5
        assert found.details["chosen strengths"] == [1e-5] * 5

    def test_the_protocol_says_how(self) -> None:
        protocol = score(task()).protocol
        assert protocol == {
            "setting": "fast",
            "design": "nested folds",
            "folds": 5,
            "optimiser": "rmsprop",
            "batch_size": 128,
            "tenacity": 3,
            "epoch_size": 2,
            "max_epochs": 200,
            "seed": 1111,
            "strengths": [1e-5, 1e-4, 1e-3, 1e-2],
            "features": "u",
        }

    def test_a_score_can_be_written(self) -> None:
        found = score(task(**PAIRS))
        assert json.loads(json.dumps([found.figures, found.details, found.protocol]))

    def test_pairs(self) -> None:
        found = score(task(**PAIRS))
        assert (found.split, found.unit, found.count) == ("test", "pairs", 30)
        assert found.figures["accuracy"] == 100
        assert found.figures["f1"] == 100
        assert found.protocol["features"] == "|u − v|, u · v"

    def test_the_features_of_a_pair(self) -> None:
        given = task(**PAIRS)
        model = scorer(given)
        found = given.parts(model.vectors(given)).examples.features.numpy()[7]
        first, second = (np.array(model.table[sentence(n)], dtype=np.float32) for n in (14, 15))
        assert found.tolist() == [*np.abs(first - second), *(first * second)]

    def test_vectors_that_say_nothing_give_the_common_class(self) -> None:
        given = task()
        model = scorer(given, learnable=False)
        found = given.score(model, model.vectors(given))
        assert found.score is not None
        assert found.score < 80

    def test_vectors_that_are_not_finite_have_no_score(self) -> None:
        given = task()
        model = scorer(given)
        model.table[sentence(3)][0] = float("nan")  # type: ignore[index]
        found = given.score(model, model.vectors(given))
        assert found.figures == {"accuracy": None, "dev accuracy": None}
        assert found.remark == "some vectors are not finite numbers"

    def test_the_same_twice(self) -> None:
        assert score(task()) == score(task())


class TestDev:
    def test_nothing_is_tested(self) -> None:
        found = score(task(measure="dev accuracy"))
        assert found.split == "dev"
        assert found.figures == {"dev accuracy": 100}
        assert found.score == 100
        assert found.details["fits"] == 5 * 5 * 4

    def test_the_dev_examples_are_counted_where_there_are_any(self) -> None:
        given = task(design="split", dev=examples(60, 30), measure="dev accuracy")
        assert score(given).count == 30
        assert score(task(measure="dev accuracy")).count == 60


class TestTask:
    def test_its_sentences(self) -> None:
        assert list(task(**PAIRS).sentences()) == [sentence(n) for n in range(660)]

    def test_the_hash_notices_a_label_and_a_part(self) -> None:
        hashes = {
            task().data_hash(),
            task(train=[task().train[0]._replace(label=0), *task().train[1:]]).data_hash(),
            task(train=task().train[:-1], dev=task().train[-1:]).data_hash(),
        }
        assert len(hashes) == 3
        assert task().data_hash() == task().data_hash()

    def test_examples_are_in_order_of_length_then_class(self) -> None:
        given = [Example(("a b c",), 0), Example(("a b",), 1), Example(("z",), 1), Example(("c d",), 0)]
        assert in_order(given) == [given[2], given[3], given[1], given[0]]
        pairs = [Example(("a b", "c"), 0), Example(("a", "b c"), 1), Example(("a", "b"), 1)]
        assert in_order(pairs) == pairs[::-1]

    def test_equally_long_examples_keep_their_order(self) -> None:
        given = [Example((text,), 0) for text in ("b", "a", "c", "")]
        assert in_order(given) == [given[3], *given[:3]]


class TestErrors:
    def test_one_class(self) -> None:
        with pytest.raises(InputError, match=r"^Thing: 20 labels, all are 'good'; a classifier needs two classes.$"):
            task(train=[Example((sentence(n),), 1) for n in range(20)])

    def test_no_examples(self) -> None:
        with pytest.raises(InputError, match=r"^Thing: 0 labels, none is there; a classifier needs two classes.$"):
            task(train=[])

    def test_a_class_too_rare_for_the_folds(self) -> None:
        with pytest.raises(
            InputError,
            match="the class 'good' has 8 examples, 10 folds need at least 10 of each; add "
            "some, or the setting 'fast' with its 5 folds",
        ):
            task(train=examples(0, 24), setting="test")
        with pytest.raises(
            InputError, match=r"the class 'good' has 4 examples, 5 folds need at least 5 of each; add some.$"
        ):
            task(train=examples(0, 12))

    def test_too_few_to_hold_any_out(self) -> None:
        with pytest.raises(InputError, match=r"^Thing: 24 examples leave 19 to train on at a time, one in 20 of which"):
            task(train=examples(0, 24))
        assert task(train=examples(0, 25))

    def test_unknown_settings(self) -> None:
        with pytest.raises(SettingError, match="setting: 'slow' is not one of test, fast"):
            task(setting="slow")
        with pytest.raises(SettingError, match="measure: 'f1' is not one of accuracy, dev accuracy"):
            task(measure="f1")


@pytest.mark.parametrize(
    ("gold", "predicted"),
    [([1, 1, 0, 0], [1, 0, 1, 0]), ([1, 1, 1], [1, 1, 1]), ([0, 0, 1], [1, 1, 0]), ([1, 0], [0, 0])],
)
def test_f1_is_scikit_learn_s(gold: list[int], predicted: list[int]) -> None:
    metrics = pytest.importorskip("sklearn.metrics")
    expected = 100 * metrics.f1_score(gold, predicted, zero_division=0)
    assert f1_percent(np.array(gold), np.array(predicted)) == pytest.approx(expected, abs=0.005)


def test_f1_of_nothing_is_zero() -> None:
    assert f1_percent(np.zeros(3, dtype=np.int64), np.zeros(3, dtype=np.int64)) == 0
