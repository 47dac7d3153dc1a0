"""Models side by side: scores as `evaluate` has them, differences with intervals, published rows that fit."""

from __future__ import annotations

import io
from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray
from rich.console import Console

from nearer.analysis.bootstrap import SpearmanPair, paired_bootstrap
from nearer.analysis.compare import compare, comparison_tables, rows_beside
from nearer.encoder import EncoderSettings
from nearer.errors import InputError, SettingError
from nearer.evaluation import PairTask, evaluate
from nearer.evaluation.ranking_task import ranking_of
from nearer.evaluation.transfer import Example, TransferTask
from nearer.text import Pair


class NoisyScorer:
    """Sees the number that each sentence of the tests holds, through noise of its own."""

    settings = EncoderSettings(pooling="mean", max_length=16)

    def __init__(self, name: str, noise: float) -> None:
        self.name = name
        self.noise = noise

    def encode(self, sentences: list[str], *, batch_size: int | None, progress: bool) -> NDArray[np.float32]:
        angles = [float(sentence.split()[0]) + self._error(sentence) for sentence in sentences]
        return np.stack([np.cos(angles), np.sin(angles)], axis=1).astype(np.float32)

    def _error(self, sentence: str) -> float:
        seed = [ord(letter) for letter in self.name + sentence]
        return float(np.random.default_rng(seed).normal()) * self.noise

    def pair_scores(self, first: NDArray[np.float32], second: NDArray[np.float32]) -> NDArray[np.float64]:
        return (first.astype(np.float64) * second).sum(axis=-1)

    def score_matrix(self, first: NDArray[np.float32], second: NDArray[np.float32]) -> NDArray[np.float32]:
        return first @ second.T


GOOD, POOR = NoisyScorer("good", 0.1), NoisyScorer("poor", 0.6)


def pairs(count: int, seed: int, *, partners: int = 1) -> list[Pair]:
    draw = np.random.default_rng(seed)
    firsts = draw.uniform(0, 1.5, count)
    return [
        Pair(f"{first:.4f} a{seed}", f"{other:.4f} b{seed}", round(5 - 3 * abs(first - other), 3))
        for first in firsts
        for other in draw.uniform(0, 1.5, partners)
    ]


def pair_task(name: str = "STS-B", count: int = 120, seed: int = 0, **more: str) -> PairTask:
    return PairTask(name, "test", "senteval", {name: pairs(count, seed)}, **more)


def shown(table: object) -> str:
    out = io.StringIO()
    Console(file=out, width=220).print(table)
    return out.getvalue()


def test_scores_are_those_of_evaluate_and_intervals_those_of_the_bootstrap() -> None:
    tasks = [pair_task("STS-B", seed=1), pair_task("SICK-R", seed=2)]
    found = compare([POOR, GOOD], tasks, resamples=200, seed=3)
    for model, results in zip((POOR, GOOD), found.results, strict=True):
        assert results.by_name() == evaluate(model, tasks).by_name()
    first, second, average = found.differences
    assert (first.task, second.task, average.task) == ("STS-B", "SICK-R", "average")
    assert (first.model, first.against) == ("good", "poor")
    gold = np.array([pair.score for pair in tasks[0].pairs])
    sides = []
    for model in (GOOD, POOR):
        texts = [list(side) for side in zip(*((pair.first, pair.second) for pair in tasks[0].pairs), strict=True)]
        one, two = (model.encode(text, batch_size=None, progress=False) for text in texts)
        sides.append(model.pair_scores(one, two))
    assert first.interval == paired_bootstrap(SpearmanPair(*sides, gold), resamples=200, seed=3)
    assert first.interval is not None
    assert first.interval.significant
    assert average.difference == pytest.approx((first.difference + second.difference) / 2)  # type: ignore[operator]
    assert average.interval is not None
    assert average.interval.difference == pytest.approx(average.difference)


def test_a_model_against_itself_is_not_different() -> None:
    found = compare([GOOD, GOOD], [pair_task()], resamples=100)
    [same] = found.differences
    assert same.interval is not None
    assert (same.difference, same.interval.low, same.interval.high, same.interval.p_value) == (0, 0, 0, 1)
    assert not same.interval.significant


def test_figures_of_queries_are_resampled_too() -> None:
    task = ranking_of(PairTask("STS-B", "test", "senteval", {"STS-B": pairs(30, 5, partners=6)}))
    [difference] = compare([POOR, GOOD], [task], resamples=200).differences
    assert difference.interval is not None
    assert difference.interval.difference == pytest.approx(difference.difference)
    assert difference.interval.significant
    assert difference.difference is not None
    assert difference.difference > 0


def test_what_cannot_be_resampled_is_said() -> None:
    mean = pair_task(aggregation="mean")
    examples = [Example((f"{place / 20:.3f} s",), int(place > 20)) for place in range(40)]
    classes = TransferTask("own", "nested folds", ("no", "yes"), examples, [], [], setting="fast")
    found = {difference.task: difference for difference in compare([POOR, GOOD], [mean, classes]).differences}
    assert found["STS-B"].interval is None
    assert found["STS-B"].remark == "no interval: spearman mean is not made of the pairs one by one"
    assert found["own"].interval is None
    assert found["own"].remark == "no interval: accuracy is not made of the sentences one by one"
    assert found["own"].difference is not None


def test_an_undefined_score_is_undefined_here_too() -> None:
    broken = PairTask("same", "test", "file", {"same": [Pair("1 a", "2 b", 1.0), Pair("2 a", "1 b", 1.0)]})
    [difference] = compare([POOR, GOOD], [broken], resamples=100).differences
    assert (difference.difference, difference.interval) == (None, None)
    assert difference.remark == "no interval: undefined: all gold scores are equal"


def test_one_model_is_refused() -> None:
    with pytest.raises(InputError, match="1 model given, at least two"):
        compare([GOOD], [pair_task()])


class TestPublished:
    def test_rows_are_of_the_same_text(self) -> None:
        senteval, raw = pair_task(), PairTask("STS-B", "test", "raw", {"STS-B": pairs(5, 0)})
        assert {row.protocol for row in rows_beside([senteval], "all")} == {"SentEval, all"}
        assert all(row.source == "MTEB" for row in rows_beside([raw], "all"))
        own = PairTask("mine", "file", "file", {"mine": pairs(5, 0)})
        assert rows_beside([own], "all") == []
        assert rows_beside([senteval], "none") == []

    def test_by_backbone_source_or_model(self) -> None:
        task = [pair_task()]
        assert {row.backbone for row in rows_beside(task, "roberta-large")} == {"RoBERTa-large"}
        assert {row.source for row in rows_beside(task, "DebCSE")} == {"DebCSE, Table 2"}
        assert {row.backbone for row in rows_beside(task, "auto")} == {"", "BERT-base"}
        with pytest.raises(SettingError, match="--published: 'bert-huge' is none of"):
            rows_beside(task, "bert-huge")

    def test_they_are_marked_in_the_table_and_averaged_only_over_the_same_tasks(self) -> None:
        tasks = [pair_task("STS-B"), pair_task("SICK-R", seed=1)]
        found = compare([POOR, GOOD], tasks, resamples=100)
        scores, differences = map(shown, comparison_tables(found, rows_beside(tasks, "simcse")))
        row = next(line for line in scores.splitlines() if "SimCSE, BERT-base (SimCSE, Table 5)" in line)
        assert "published: " in row
        assert "76.85" in row
        assert "72.23" in row
        assert "76.25" not in row  # the average of seven
        assert "not measured here" in scores
        assert "95 % intervals of a paired bootstrap (100 resamples)" in differences
        assert "sts average" in differences

    def test_nothing_was_published_on_a_dev_set(self) -> None:
        dev = replace(pair_task(), split="dev")
        found = compare([POOR, GOOD], [dev], resamples=100)
        assert "published" not in shown(next(comparison_tables(found, rows_beside([dev], "all"))))
