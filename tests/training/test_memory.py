"""The estimate of a run's memory, and what is said when it is too much."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from nearer.errors import SettingError
from nearer.training import memory, train
from nearer.training.memory import Estimate, estimate_memory, free_memory
from nearer.training.trainer import Trainer


@pytest.fixture
def estimate_of(recipe: Path, corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Estimate]:
    """The estimate that a run makes before its first step."""

    def estimate(**settings: object) -> Estimate:
        found: list[Estimate] = []

        def look(trainer: Trainer) -> list[str]:
            found.append(estimate_memory(trainer))
            raise SettingError("looked")

        out = tmp_path / f"run{len(list(tmp_path.iterdir()))}"
        usual = {"select_on": [], "test_on": [], "dropout": 0.1}
        monkeypatch.setattr("nearer.training.run.check_memory", look)
        # bf16 is counted here, not waited for: it may be without instructions of its own
        monkeypatch.setattr("nearer.training.run.has_bfloat16_products", lambda device: True)
        with pytest.raises(SettingError, match="looked"):
            train(recipe, corpus, out=out, settings={**usual, **settings})
        return found[0]

    return estimate


def test_it_grows_with_the_batch_and_shrinks_with_pieces(estimate_of: Callable[..., Estimate]) -> None:
    small, large = estimate_of(batch_size=8), estimate_of(batch_size=64)
    assert large.token == pytest.approx(small.token, rel=0.01)  # measured, not guessed from the batch
    assert large.tokens > 6 * small.tokens
    pieces = estimate_of(batch_size=64, piece=8)
    assert pieces.tokens < large.tokens / 10
    assert pieces.total < large.total


def test_what_a_pass_keeps_is_what_was_counted_by_hand(estimate_of: Callable[..., Estimate]) -> None:
    """Three blocks of width 32: at least queries, keys, values, two norms and both sides of the wide layer."""
    token = estimate_of().token
    assert 3 * 4 * (3 * 32 + 2 * 32 + 2 * 64) < token < 3 * 4 * 40 * 32
    assert estimate_of(precision="bf16").token < 0.75 * token


def test_masked_tokens_add_their_vocabulary(estimate_of: Callable[..., Estimate]) -> None:
    assert estimate_of(mlm_weight=0.1).fixed > estimate_of().fixed + 12 * 128 * 100


def test_too_much_is_refused_before_the_first_step(
    recipe: Path, corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory, "free_memory", lambda device: 3_000_000)
    settings = {"batch_size": 64, "test_on": []}
    with pytest.raises(SettingError, match=r"about \d+ MB of the 3 MB .* set piece=\d+ .*lower batch_size") as refused:
        train(recipe, corpus, out=tmp_path / "run", settings=settings)
    assert "\n" not in str(refused.value)
    assert not list((tmp_path / "run").glob("checkpoints/*"))
    piece = int(str(refused.value).split("piece=")[1].split()[0])
    run = train(recipe, corpus, out=tmp_path / "other", settings={**settings, "piece": piece, "max_steps": 2})
    assert run.model.exists()  # the advice helps


def test_nothing_helps_a_model_that_does_not_fit_at_all(
    recipe: Path, corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory, "free_memory", lambda device: 1000)
    with pytest.raises(SettingError, match="smaller model"):
        train(recipe, corpus, out=tmp_path / "run")


def test_free_memory_is_known_here_or_not_at_all() -> None:
    import torch

    free = free_memory(torch.device("cpu"))
    assert free is None or 0 < free < 2**50


def test_the_sentences_that_fit() -> None:
    estimate = Estimate(fixed=1000, token=10.0, tokens=10_000, longest=20, free=200_000, device="cpu")
    assert not estimate.fits or estimate.total <= 200_000
    piece = estimate.sentences_that_fit()
    assert piece == 512
    assert (1000 + 10.0 * 20 * piece) * memory.MARGIN <= 200_000 < (1000 + 10.0 * 20 * 2 * piece) * memory.MARGIN
