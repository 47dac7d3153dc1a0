"""The fast step against the plain one: the same losses and weights, whatever the method does."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from nearer.methods import METHODS
from nearer.training.trainer import Trainer

TakeSteps = Callable[[Trainer, int], torch.Tensor]

# fewer heads, so that they are wide enough for the kernel
HEADS = {"bert": {"num_attention_heads": 2}, "roberta": {"num_attention_heads": 2}, "distilbert": {"n_heads": 2}}
# queries are short, passages long
LISTS = {"method": "lists", "data": "scored", "pooling": "mean", "head": False, "query_max_length": 8}


@pytest.fixture
def make_trainer(make_trainer: Callable[..., Trainer]) -> Callable[..., Trainer]:
    def on_gpu(kind: str = "bert", **settings: Any) -> Trainer:
        return make_trainer(kind, device="cuda", overrides=HEADS.get(kind), **settings)

    return on_gpu


@pytest.mark.parametrize(
    "settings",
    [
        {"precision": "float32"},
        {"precision": "bf16"},
        {"precision": "bf16", "max_length": 65},
        {"precision": "float32", "pooling": "mean"},
        {"precision": "float32", "pooling": "first_last_mean"},
        {"precision": "float32", "data": "triplets", "hard_negative_weight": 2.0},
        {"precision": "float32", "mlm_weight": 0.5},
        {"precision": "float32", "two_encoders": True},
        {"precision": "float32", "accumulation": 3},
        {"precision": "float32", "fixed_masks": True},
        {"precision": "float32", "piece": 5},
        {"precision": "float32", "kind": "mobilebert"},
        {"precision": "float32", "kind": "mpnet"},
        {"precision": "float32", "kind": "roberta"},
        {"precision": "float32", "kind": "distilbert"},
        {"precision": "bf16", "kind": "roberta", "weight_decay": 0.1},
        {"precision": "float32", "method": "rankcse", "teachers": ["bert", "mpnet"], "teacher_weights": [1, 2]},
        {"precision": "float32", "method": "rankcse", "teachers": ["mpnet"], "ranking": "list_mle"},
        {"precision": "float32", "method": "rankcse", "teachers": ["mpnet"], "first_view": "feature_cutoff"},
        {"precision": "float32", "method": "debcse", "data": "triplets"},
        {"precision": "float32", "method": "debcse", "data": "triplets", "as_printed": True, "mined_positives": False},
        {"precision": "float32", "method": "rankencoder", "teachers": ["mpnet"], "lower_threshold": -1.0},
        {"precision": "float32", "method": "rankencoder", "teachers": ["mpnet"], "approximate": True},
        {"precision": "float32", "method": "esimcse", "queue_size": 20},
        {"precision": "float32", "method": "esimcse", "queue_size": 20, "accumulation": 2},
        {"precision": "bf16", "method": "esimcse", "queue_size": 20},
        {"precision": "float32", "method": "arccse", "shortest_masked": 9, "dropout": 0.0},
        {"precision": "float32", "method": "consert"},
        {"precision": "float32", "method": "dclr", "teachers": ["mpnet"]},
        {"precision": "float32", "method": "pcl"},
        {"precision": "float32", "method": "consert", "first_view": "token_cutoff", "kind": "mobilebert"},
        {"precision": "float32", **LISTS, "teachers": ["mpnet"]},
        {"precision": "bf16", **LISTS, "teachers": ["mpnet"], "max_length": 40},
        {"precision": "float32", **LISTS, "teachers": ["bert", "mpnet"], "vector_weight": 10.0},
        {"precision": "float32", **LISTS},
        {"precision": "float32", **LISTS, "loss": "list_mle", "in_batch_weight": 0.0},
        {"precision": "float32", **LISTS, "loss": "margin", "in_batch_weight": 0.0, "similarity": "dot"},
    ],
    ids=str,
)
def test_fifty_steps_have_the_losses_of_plain_steps(
    settings: dict[str, Any], make_trainer: Callable[..., Trainer], take_steps: TakeSteps
) -> None:
    fast, plain = make_trainer(**settings), make_trainer(**settings, compile=False)
    assert fast.fast
    assert not plain.fast
    found, wanted = take_steps(fast, 50), take_steps(plain, 50)
    # MPNet makes a tensor of a Python number in each pass
    assert bool(fast.take.graphs) != ("piece" in settings or settings.get("kind") == "mpnet")
    if settings["precision"] == "bf16":
        # two roundings of the same numbers: single batches of a few sentences may differ, all together not
        assert float((found[:, 0] - wanted[:, 0]).abs().mean()) < 0.05
        assert float(found[:, 0].mean()) == pytest.approx(float(wanted[:, 0].mean()), abs=0.05)
    else:
        torch.testing.assert_close(found[:10, 0], wanted[:10, 0], atol=1e-4, rtol=1e-4)
        torch.testing.assert_close(found[:, 0], wanted[:, 0], atol=1e-2, rtol=1e-2)


@pytest.mark.parametrize("precision", ["float32", "bf16"])
def test_the_same_seed_gives_the_same_bits_with_dropout(
    precision: str, make_trainer: Callable[..., Trainer], take_steps: TakeSteps
) -> None:
    settings = {"precision": precision, "dropout": 0.1}
    first, same = take_steps(make_trainer(**settings), 12), take_steps(make_trainer(**settings), 12)
    other = take_steps(make_trainer(**settings, seed=1), 12)
    assert torch.equal(first, same)
    assert not torch.equal(first, other)


def test_views_have_noise_of_their_own_and_steps_too(
    make_trainer: Callable[..., Trainer], take_steps: TakeSteps
) -> None:
    """With a rate of 0 for the weights, losses differ by batch and noise alone."""
    settings = {"precision": "float32", "dropout": 0.3, "learning_rate": 1e-12}
    noisy = take_steps(make_trainer(**settings), 4)
    fixed = take_steps(make_trainer(**settings, fixed_masks=True), 4)
    # equal masks for both views: each sentence is its own nearest
    assert bool((fixed[:, 0] < noisy[:, 0] - 0.1).all())
    assert noisy[:, 0].unique().numel() == 4


@pytest.mark.parametrize("settings", [{"two_encoders": True}, {"mlm_weight": 0.5}], ids=str)
def test_passes_one_after_the_other_have_noise_of_their_own(
    settings: dict[str, Any], make_trainer: Callable[..., Trainer], take_steps: TakeSteps
) -> None:
    """The seeds of a pass are still there when its gradient is computed, after those of the next were drawn."""
    trainer = make_trainer(**settings, dropout=0.3, precision="float32", learning_rate=1e-12)
    losses = take_steps(trainer, 6)
    assert trainer.take.graphs
    assert losses.isfinite().all()
    seeds = [tuple(each.tolist()) for each in trainer.working.noise.seeds.values()]
    assert len(set(seeds)) == len(seeds) > 1


def test_a_method_that_uses_all_of_the_contract_is_captured(
    make_trainer: Callable[..., Trainer], take_steps: TakeSteps, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2] / "plugins"))
    from nearer_toy import Toy

    monkeypatch.setitem(METHODS, "toy", Toy)
    settings = {"method": "toy", "head": False, "pooling": "cls", "precision": "float32"}
    fast = make_trainer(**settings)
    found, wanted = take_steps(fast, 30), take_steps(make_trainer(**settings, compile=False), 30)
    assert fast.take.graphs
    torch.testing.assert_close(found, wanted, atol=1e-3, rtol=1e-3)


def test_dropout_of_the_fast_step_is_that_of_the_plain_one_on_average(
    make_trainer: Callable[..., Trainer], take_steps: TakeSteps
) -> None:
    settings = {"precision": "float32", "dropout": 0.2, "learning_rate": 1e-12}
    fast, plain = take_steps(make_trainer(**settings), 60), take_steps(make_trainer(**settings, compile=False), 60)
    spread = float(plain[:, 0].std()) / 60**0.5
    assert float(fast[:, 0].mean()) == pytest.approx(float(plain[:, 0].mean()), abs=5 * spread)


def test_a_model_that_cannot_be_captured_is_trained_all_the_same(
    make_trainer: Callable[..., Trainer], take_steps: TakeSteps
) -> None:
    trainer = make_trainer("mpnet", dropout=0.1, precision="float32")
    assert take_steps(trainer, 5).isfinite().all()
    assert any("not captured" in remark for remark in trainer.remarks())
    # and the next one, in the same process, is captured
    other = make_trainer("bert", dropout=0.1)
    assert take_steps(other, 5).isfinite().all()
    assert other.take.graphs


def test_gradients_computed_elsewhere_before_do_not_spoil_a_capture(
    make_trainer: Callable[..., Trainer], take_steps: TakeSteps
) -> None:
    from nearer.training.memory import estimate_memory

    trainer = make_trainer("bert", dropout=0.1)
    assert estimate_memory(trainer).fits
    assert take_steps(trainer, 60).isfinite().all()  # partial batches in between are plain steps
    assert trainer.take.capture
    assert trainer.take.graphs
