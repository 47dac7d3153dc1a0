"""RankEncoder's training: E1's rank similarities of a batch, and the losses that follow (Eq. 4 to 6)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from losses_of import losses_of
from pydantic import ValidationError
from scipy.stats import spearmanr

from nearer.encoder import Encoder
from nearer.methods import Batch, RankEncoderSettings, RankEncoderTraining
from nearer.objectives import info_nce, rank_regression
from nearer.teachers import RankEncoder
from nearer.text import read_sentences

WORDS = ["the", "quick", "brown", "fox", "jumps", "over", "a", "lazy", "dog", "rain"]
TEXTS = [f"{one} {two} {three}" for one in WORDS for two in WORDS[:4] for three in WORDS[:3]]
Prepared = Callable[..., RankEncoderTraining]


@pytest.fixture
def base(tiny_model: Callable[[str], Path]) -> dict[str, str]:
    return {"model": str(tiny_model("bert")), "pooling": "mean"}


@pytest.fixture
def student(tiny_model: Callable[[str], Path]) -> Encoder:
    return Encoder.load(tiny_model("distilbert"), pooling="mean", device="cpu")


@pytest.fixture
def prepared(base: dict[str, str], student: Encoder, tmp_path: Path) -> Prepared:
    corpus = tmp_path / "corpus.txt"
    corpus.write_text("\n".join([*TEXTS, *TEXTS[:10]]) + "\n")  # some twice

    def make(**settings: Any) -> RankEncoderTraining:
        method = RankEncoderTraining(RankEncoderSettings(**{"teachers": [base], "corpus_size": 50, **settings}))
        method.remarks = method.prepare(student, read_sentences(corpus))  # type: ignore[attr-defined]
        return method

    return make


def batch(records: list[int]) -> Batch:
    rows = [np.array([2, 5, 3]) for _ in records]
    return Batch([rows], np.array(records), np.random.default_rng(0), np.random.default_rng(0))


def given(method: RankEncoderTraining, records: list[int]) -> dict[str, torch.Tensor]:
    return {name: torch.from_numpy(array) for name, array in method.inputs(batch(records)).given.items()}


def views(rows: int) -> list[torch.Tensor]:
    random = torch.Generator().manual_seed(1)
    first = torch.randn(rows, 8, generator=random)
    return [first, first + 0.3 * torch.randn(rows, 8, generator=random)]


def rank_similarities(base: dict[str, str], sampled: np.ndarray, records: list[int]) -> torch.Tensor:
    """Spearman's correlations of E1's similarity lists, by scipy."""
    encoder = Encoder.load(base["model"], pooling=base["pooling"], device="cpu")
    texts = [*TEXTS, *TEXTS[:10]]
    kept = encoder.encode([texts[place] for place in sampled], normalize=True).astype(np.float16).astype(np.float64)
    queries = encoder.encode([texts[place] for place in records], normalize=True).astype(np.float16).astype(np.float64)
    lists = queries @ kept.T
    return torch.tensor([[spearmanr(one, two).statistic for two in lists] for one in lists])


@pytest.mark.parametrize("variant", ["paper", "released"])
def test_the_loss_is_the_larger_one_or_the_sum(prepared: Prepared, base: dict[str, str], variant: str) -> None:
    method = prepared(variant=variant, rank_weight=5.0, lower_threshold=0.0, upper_threshold=0.9)
    records, vectors = [3, 40, 77, 100], views(4)
    found = losses_of(method, vectors, given(method, records))
    wanted = rank_similarities(base, method.sampled, records)
    one, two = (torch.nn.functional.normalize(view, dim=-1) for view in vectors)
    inside = (wanted >= 0) & (wanted <= 0.9)
    assert 0 < int(inside.sum()) < 16
    ranking = (wanted - one @ two.T)[inside].square().mean().float()
    torch.testing.assert_close(found.parts["ranking"], ranking, atol=2e-3, rtol=2e-3)
    contrastive = info_nce(*vectors)
    torch.testing.assert_close(found.parts["contrastive"], contrastive)
    total = max(5 * ranking, contrastive) if variant == "paper" else 5 * ranking + contrastive
    torch.testing.assert_close(found.total, total, atol=1e-2, rtol=1e-2)


def test_without_pairs_inside_the_thresholds_there_is_the_contrast(prepared: Prepared) -> None:
    method = prepared(lower_threshold=0.9999, upper_threshold=0.99991, variant="released")
    vectors = [view.requires_grad_() for view in views(4)]
    found = losses_of(method, vectors, given(method, [3, 40, 77, 100]))
    assert found.parts["ranking"].item() == 0
    found.total.backward()
    assert all(torch.isfinite(view.grad).all() for view in vectors)


def test_rank_regression_over_all_pairs_is_equation_four() -> None:
    wanted, scores = torch.rand(5, 5) * 2 - 1, torch.rand(5, 5)
    found = rank_regression(scores, wanted, lower=-1, upper=1)
    torch.testing.assert_close(found, (wanted - scores).square().mean())


def test_the_corpus_is_drawn_once_of_a_kind_and_is_the_same_for_the_same_seed(prepared: Prepared) -> None:
    first, same, other = prepared(), prepared(), prepared(corpus_seed=1)
    np.testing.assert_array_equal(first.sampled, same.sampled)
    assert not np.array_equal(first.sampled, other.sampled)
    texts = [*TEXTS, *TEXTS[:10]]
    assert len({texts[place] for place in first.sampled}) == len(first.sampled) == 50
    whole = prepared(corpus_size=1000)
    assert len(whole.sampled) == len(TEXTS)
    assert "120 different sentences" in whole.remarks[0]  # type: ignore[attr-defined]


def test_the_approximation_is_near_the_exact_similarities(prepared: Prepared) -> None:
    exact, near = prepared(corpus_size=120), prepared(corpus_size=120, approximate=True)
    vectors = given(exact, [0, 30, 60, 90])["teacher"]
    difference = exact.ranks.similarities(vectors, vectors) - near.ranks.similarities(vectors, vectors)
    assert float(difference.abs().max()) < 0.2


def test_the_finished_model_has_the_corpus_by_the_new_encoder(
    prepared: Prepared, student: Encoder, tmp_path: Path
) -> None:
    method = prepared(inference_weight=0.25)
    method.finished(student).save(tmp_path / "model")
    loaded = RankEncoder.load(tmp_path / "model", device="cpu")
    assert loaded.inference_weight == 0.25
    texts = [*TEXTS, *TEXTS[:10]]
    wanted = student.encode([texts[place] for place in method.sampled], normalize=True)
    np.testing.assert_allclose(np.asarray(loaded.corpus, dtype=np.float32), wanted, atol=1e-3)
    assert prepared(inference_weight=0).finished(student) is student


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({}, "E1"),
        ({"teachers": ["a", "b"]}, "E1"),
        ({"teachers": ["a"], "lower_threshold": 0.9}, "above"),
        ({"teachers": ["a"], "corpus_size": 1}, "greater than or equal to 2"),
        ({"teachers": ["a"], "inference_weight": 1.5}, "less than or equal to 1"),
    ],
    ids=str,
)
def test_settings_that_cannot_be_meant_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        RankEncoderSettings(**settings)


def test_released_pairs_go_up_to_all_but_equal_ones() -> None:
    assert RankEncoderSettings(teachers=["a"]).upper == 0.8
    assert RankEncoderSettings(teachers=["a"], variant="released").upper == 0.9999
    assert RankEncoderSettings(teachers=["a"], variant="released", upper_threshold=0.7).upper == 0.7
