"""Dev scores during a run are those that `evaluate` finds; uniformity against two loops."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from nearer.encoder import Encoder
from nearer.errors import SettingError
from nearer.evaluation import evaluate, load_tasks
from nearer.training.selection import Selection, uniformity

WORDS = ["quick", "brown", "fox", "jumps", "over", "lazy", "dog", "rain", "lunch", "someone", "evening", "man"]


@pytest.fixture
def encoder(tiny_model: Callable[[str], Path]) -> Encoder:
    """In the middle of training, with dropout at work."""
    return Encoder.load(tiny_model("bert"), pooling="mean", device="cpu", dropout=0.3).train()


@pytest.fixture
def dev_files(tmp_path: Path) -> list[str]:
    """Two files of unequal length which share some sentences."""
    draw = random.Random(5)
    sentences = [" ".join(draw.choices(WORDS, k=draw.randint(2, 9))) for _ in range(40)]
    paths = []
    for name, pairs in (("first", 30), ("second", 17)):
        path = tmp_path / f"{name}.tsv"
        # no sentence beside itself: such pairs' cosines differ in their last bit, and not alike in numpy and torch
        lines = [[*draw.sample(sentences, 2), str(draw.randint(0, 50) / 10)] for _ in range(pairs)]
        path.write_text("".join("\t".join(line) + "\n" for line in lines))
        paths.append(str(path))
    return paths


@pytest.mark.parametrize("files", [1, 2])
@pytest.mark.parametrize("pooling", ["mean", "cls_before_head"])
def test_the_score_is_that_of_an_evaluation(
    files: int, pooling: str, tiny_model: Callable[[str], Path], dev_files: list[str]
) -> None:
    encoder = Encoder.load(tiny_model("bert"), pooling=pooling, device="cpu", dropout=0.3).train()
    encoder.add_head(torch.Generator().manual_seed(0))
    found = Selection(dev_files[:files], None).score(encoder)
    results = evaluate(encoder, dev_files[:files])
    assert found.score == pytest.approx(results.average, abs=1e-6)
    assert found.tasks == pytest.approx(
        {f"{score.task} {score.split}": score.score for score in results.scores}, abs=1e-6
    )
    assert len(found.tasks) == files
    assert encoder.training


@pytest.fixture
def partners_file(tmp_path: Path) -> str:
    """Two sentences with five partners each."""
    draw = random.Random(7)
    path = tmp_path / "partners.tsv"
    lines = [
        f"{sentence}\t{' '.join(draw.choices(WORDS, k=draw.randint(2, 9)))} {place}\t{score}\n"
        for sentence in ("the lazy dog", "a man eats")
        for place, score in enumerate(draw.sample(range(6), k=5))
    ]
    path.write_text("".join(lines))
    return str(path)


def test_a_task_of_another_kind_beside_pairs(encoder: Encoder, dev_files: list[str], partners_file: str) -> None:
    names = [*dev_files, f"ranking:{partners_file}"]
    found = Selection(names, None).score(encoder)
    results = evaluate(encoder, names)
    assert results.scores[-1].kind == "ranking"
    assert found.tasks == pytest.approx(
        {f"{score.task} {score.split}": score.score for score in results.scores}, abs=1e-6
    )
    assert found.score == pytest.approx(sum(found.tasks.values()) / 3)
    assert encoder.training


def test_a_task_that_fits_regressions(encoder: Encoder, tmp_path: Path) -> None:
    """In the middle of training, where gradients are being recorded; and it leaves the run's randomness alone."""
    draw = random.Random(3)
    lines = [f"{' '.join(draw.choices(WORDS, k=draw.randint(2, 9)))}\t{draw.randint(0, 1)}\n" for _ in range(60)]
    (tmp_path / "classes.tsv").write_text("".join(lines))
    name = f"transfer-fast:{tmp_path / 'classes.tsv'}"
    before = torch.get_rng_state()
    with torch.enable_grad():
        found = Selection([name], None).score(encoder)
    assert torch.equal(torch.get_rng_state(), before)
    assert found.score == pytest.approx(evaluate(encoder, name).average, abs=1e-6)


def test_a_task_of_another_kind_sees_the_weights_of_now(encoder: Encoder, partners_file: str) -> None:
    selection = Selection([f"ranking:{partners_file}"], None)
    before = selection.score(encoder).score
    with torch.no_grad():
        for weight in encoder.backbone.parameters():
            weight += torch.randn(weight.shape, generator=torch.Generator().manual_seed(3))
    after = selection.score(encoder).score
    assert after == pytest.approx(evaluate(encoder, f"ranking:{partners_file}").average)
    assert after != before


@pytest.mark.parametrize("bias", [1.0, float("nan")], ids=["alike", "diverged"])
def test_vectors_that_tell_nothing_are_worse_than_any_order(bias: float, encoder: Encoder, partners_file: str) -> None:
    last = encoder.backbone.encoder.layer[-1].output.LayerNorm
    with torch.no_grad():
        last.weight.zero_()
        last.bias.fill_(bias)
    assert Selection([f"ranking:{partners_file}"], None).score(encoder).score == -100.0


def test_a_second_look_sees_the_weights_of_now(encoder: Encoder, dev_files: list[str]) -> None:
    selection = Selection(dev_files, None)
    before = selection.score(encoder)
    words = encoder.backbone.embeddings.word_embeddings.weight
    with torch.no_grad():
        words += torch.randn(words.shape, generator=torch.Generator().manual_seed(3))
    after = selection.score(encoder)
    assert after.score != before.score
    assert after.score == pytest.approx(evaluate(encoder, dev_files).average, abs=1e-6)


def test_uniformity_is_over_each_unique_sentence_once(encoder: Encoder, dev_files: list[str]) -> None:
    lines = [line.split("\t")[:2] for path in dev_files for line in Path(path).read_text().splitlines()]
    unique = sorted({sentence for pair in lines for sentence in pair})
    found = Selection(dev_files, None).score(encoder).uniformity
    assert found == pytest.approx(uniformity_by_hand(encoder.encode(unique)), abs=1e-5)


def test_identical_vectors_are_worse_than_any_order(encoder: Encoder, dev_files: list[str]) -> None:
    last = encoder.backbone.encoder.layer[-1].output.LayerNorm
    with torch.no_grad():
        last.weight.zero_()
        last.bias.fill_(1.0)
    found = Selection(dev_files, None).score(encoder)
    assert (found.score, found.uniformity) == (-100.0, 0.0)


@pytest.mark.parametrize("name", ["stsb", "sts", "sts12", "sts16", "sick-r"])
def test_a_test_set_is_refused(name: str, dev_files: list[str], tmp_path: Path) -> None:
    with pytest.raises(SettingError, match=f"select_on: '{name}' is a test set"):
        Selection([*dev_files, name], tmp_path)


def test_bfloat16_is_used_and_comes_close() -> None:
    encoder = Encoder.load("wiki-mini", pooling="mean", device="cpu")
    selection = Selection(["everyday"], None)
    full, lower = selection.score(encoder), selection.score(encoder, "bf16")
    assert lower.score == pytest.approx(full.score, abs=0.5)
    assert lower.uniformity == pytest.approx(full.uniformity, abs=0.02)
    assert lower.score != full.score


def test_alignment_is_that_of_the_pairs_scored_high(encoder: Encoder, dev_files: list[str]) -> None:
    distances = []
    for task in load_tasks(dev_files, None):
        for pair in task.pairs:
            if pair.score > 4:  # of 5
                first, second = (encoder.encode(text).astype(np.float64) for text in pair[:2])
                first, second = first / np.linalg.norm(first), second / np.linalg.norm(second)
                distances.append(((first - second) ** 2).sum())
    assert distances
    assert Selection(dev_files, None).score(encoder).alignment == pytest.approx(np.mean(distances), abs=1e-4)


def uniformity_by_hand(vectors: np.ndarray) -> float:
    unit = [vector / np.sqrt(vector @ vector) for vector in vectors.astype(np.float64)]
    terms = [
        math.exp(-2 * float((first - second) @ (first - second)))
        for place, first in enumerate(unit)
        for second in unit[place + 1 :]
    ]
    return math.log(sum(terms) / len(terms))


@pytest.mark.parametrize("spread", [0.05, 1.0, 30.0])
@pytest.mark.parametrize("count", [2, 3, 50])
def test_uniformity_against_two_loops(spread: float, count: int) -> None:
    vectors = 3 + spread * np.random.default_rng(count).standard_normal((count, 12)).astype(np.float32)
    assert uniformity(torch.from_numpy(vectors)) == pytest.approx(uniformity_by_hand(vectors), abs=1e-5)


def test_uniformity_looks_at_no_more_vectors_than_told() -> None:
    vectors = torch.randn(30, 8, generator=torch.Generator().manual_seed(1))
    assert uniformity(vectors, most=10) == pytest.approx(uniformity_by_hand(vectors[:10].numpy()), abs=1e-5)


def test_uniformity_of_vectors_that_are_alike_or_alone_is_0() -> None:
    assert uniformity(torch.tensor([[0.3, 0.4]]).repeat(5, 1)) == pytest.approx(0.0, abs=1e-6)
    assert uniformity(torch.ones(1, 4)) == 0.0


def test_files_of_one_name_are_two_tasks(encoder: Encoder, tmp_path: Path) -> None:
    """Their mean counts both, as `evaluate` does."""
    lines = [("a man is eating lunch", "someone has a meal"), ("rain", "a lazy dog"), ("the fox", "far away")]
    for folder, scores in (("one", (5, 3, 1)), ("two", (1, 3, 5))):
        (tmp_path / folder).mkdir()
        rows = "".join(f"{a}\t{b}\t{score}\n" for (a, b), score in zip(lines, scores, strict=True))
        (tmp_path / folder / "dev.tsv").write_text(rows)
    dev = Selection([str(tmp_path / folder / "dev.tsv") for folder in ("one", "two")], None).score(encoder)
    assert dev.score == pytest.approx(0, abs=1e-6)  # opposite golds
    assert len(dev.tasks) == 2


def test_equal_gold_scores_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "dev.tsv"
    path.write_text("a\tb\t1\nc\td\t1\n")
    with pytest.raises(SettingError, match="gold scores of dev are equal"):
        Selection([str(path)], None)


@pytest.mark.parametrize(
    "name", ["STSB", "sick-r-all", "Sts", "ranking", "ranking:sts12", "Ranking:STSB", "wikiqa", "MR-fast"]
)
def test_test_sets_are_refused_however_they_are_written(name: str) -> None:
    with pytest.raises(SettingError, match="test set"):
        Selection([name], None)
