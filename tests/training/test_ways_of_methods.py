"""Every way of taking a step gives the same losses for each of these methods, and a dead run goes on to the bit."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from test_method_contract import pack
from two_processes import check_moments, check_steps, two_beside_one

from nearer.encoder.packed_attention import FusedSelfAttention
from nearer.training import resume, train
from nearer.training.trainer import Trainer
from nearer.training.working_copy import WorkingCopy

TakeSteps = Callable[[Trainer, int], torch.Tensor]
OF: dict[str, dict[str, Any]] = {
    "tsdae": {"pooling": "cls"},
    "ct": {"pooling": "mean", "negatives": 3, "similarity": "cosine", "temperature": 0.1},
    "isbert": {"pooling": "mean"},
    "sbert": {"pooling": "mean", "data": "triplets"},
    "declutr": {"pooling": "mean", "shortest_span": 1, "document_tokens": 32},
    "infocse": {"pooling": "cls", "mlm_weight": 0.5},
}
# weights that are tied to the encoder's, and a layer of the encoder's that a method adds
QUICK = ("tsdae", "isbert")
RESUMED = [method if method in QUICK else pytest.param(method, marks=pytest.mark.slow) for method in OF]


@pytest.fixture
def make(make_trainer: Callable[..., Trainer]) -> Callable[..., Trainer]:
    def made(method: str, **settings: Any) -> Trainer:
        return make_trainer(method=method, head=False, **{**OF[method], **settings})

    return made


@pytest.mark.parametrize("method", OF)
def test_pieces_and_packed(make: Callable[..., Trainer], take_steps: TakeSteps, method: str) -> None:
    wanted = take_steps(make(method), 3)
    for other in (make(method, piece=3), pack(make(method))):
        torch.testing.assert_close(take_steps(other, 3), wanted, atol=1e-4, rtol=1e-3)


@pytest.mark.parametrize("method", OF)
def test_weights_have_one_copy_in_lower_precision(make: Callable[..., Trainer], method: str) -> None:
    """A captured step updates a weight for each copy that has a gradient: two would be two updates."""
    trainer = make(method)
    working = WorkingCopy(trainer.model, dtype=torch.bfloat16, packed=True, kernels=False)
    masters = [id(copied.master) for copied in working.copies]
    assert len(masters) == len(set(masters))


@pytest.mark.parametrize("method", ["infocse", "ct"])
def test_projections_are_fused_where_tokens_are_packed(make: Callable[..., Trainer], method: str) -> None:
    """Attention of other modules sees rectangles, which a fused one cannot read."""
    trainer = make(method)
    working = WorkingCopy(trainer.model, dtype=torch.bfloat16, packed=True, kernels=False)
    fused = [name for name, module in working.model.named_modules() if isinstance(module, FusedSelfAttention)]
    assert {name.split(".backbone.")[0] for name in fused} == {
        "infocse": {"encoder"},
        "ct": {"encoder", "method.second"},
    }[method]


@pytest.mark.parametrize("method", RESUMED)
def test_resumed_to_the_bit(
    method: str,
    recipe: Path,
    corpus: Path,
    tmp_path: Path,
    weights: Callable[[Path], dict[str, Any]],
    stop_after: Callable[[int], Any],
) -> None:
    settings = {"method": method, "head": False, "learning_rate": 1e-4, **OF[method], "max_steps": 4}
    settings |= {"checkpoint_every": 2, "select_on": [], "test_on": []}
    if OF[method].get("data") == "triplets":
        lines = corpus.read_text().splitlines()
        corpus = tmp_path / "triplets.tsv"
        corpus.write_text("".join("\t".join(lines[n : n + 3]) + "\n" for n in range(100)))
    train(recipe, corpus, out=tmp_path / "whole", settings=settings)
    with stop_after(3):
        train(recipe, corpus, out=tmp_path / "broken", settings=settings)
    resume(tmp_path / "broken")
    whole, broken = weights(tmp_path / "whole"), weights(tmp_path / "broken")
    assert whole.keys() == broken.keys()
    assert all(torch.equal(whole[name], broken[name]) for name in whole)


# each process draws its own masks and deletions, so there are none
ALONE: dict[str, dict[str, Any]] = {
    "tsdae": {"deletion_rate": 0.0},
    "isbert": {},
    "ct": {},
}


@pytest.mark.slow  # the contract's own test takes every kind of pass through two processes
@pytest.mark.parametrize("method", ALONE)
def test_two_processes_equal_one(
    method: str, recipe: Path, corpus: Path, tmp_path: Path, weights: Callable[[Path], dict[str, Any]]
) -> None:
    settings = {"method": method, "head": False, **OF[method], **ALONE[method], "dropout": 0.0, "batch_size": 7}
    settings |= {"max_steps": 4, "learning_rate": 1e-5, "select_on": [], "test_on": []}
    steps = two_beside_one(recipe, corpus, tmp_path, settings)
    assert len(steps) == 4
    check_steps(steps, loss=1e-3, norm=1e-2)
    check_moments(tmp_path, weights)
