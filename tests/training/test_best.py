"""The best weights are kept while training goes on, and written later."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from nearer.encoder import Encoder
from nearer.runs.checkpoints import Best, best_folder


@pytest.fixture
def encoder(tiny_model: Callable[[str], Path]) -> Encoder:
    return Encoder.load(tiny_model("bert"), pooling="cls", device="cpu")


@pytest.fixture
def best(encoder: Encoder, tmp_path: Path) -> Best:
    return Best(encoder, tmp_path)


def train(encoder: Encoder, seed: int) -> None:
    """Let the weights move."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for weight in encoder.parameters():
            weight += 0.1 * torch.randn(weight.shape, generator=generator)


def vectors(encoder: Encoder) -> NDArray[np.float32]:
    return encoder.encode(["rain", "a lazy dog jumps"])


def written(best: Best) -> NDArray[np.float32]:
    return vectors(Encoder.load(best_folder(best.checkpoints, 3), device="cpu"))


def test_the_kept_weights_are_written_though_the_model_moved_on(encoder: Encoder, best: Best) -> None:
    train(encoder, 1)
    kept = vectors(encoder)
    best.keep(3)
    train(encoder, 2)
    assert not np.allclose(vectors(encoder), kept, atol=0.01)
    best.write()
    np.testing.assert_allclose(written(best), kept, atol=1e-6)


def test_the_model_goes_on_with_its_own_weights_in_their_own_memory(encoder: Encoder, best: Best) -> None:
    best.keep(3)
    train(encoder, 1)
    own = [(weight.data_ptr(), weight.detach().clone()) for weight in encoder.parameters()]
    best.write()
    for weight, (address, value) in zip(encoder.parameters(), own, strict=True):
        assert weight.data_ptr() == address  # where optimiser and captured steps look for it
        assert torch.equal(weight, value)


def test_without_anything_kept_nothing_is_written(best: Best) -> None:
    best.write()
    assert not best_folder(best.checkpoints, 3).exists()


def test_what_was_written_is_not_written_again(encoder: Encoder, best: Best) -> None:
    best.keep(3)
    best.write()
    shutil.rmtree(best_folder(best.checkpoints, 3))
    train(encoder, 1)
    best.write()
    assert not best_folder(best.checkpoints, 3).exists()


def test_the_later_of_two_is_written(encoder: Encoder, best: Best) -> None:
    best.keep(3)
    train(encoder, 1)
    best.keep(3)
    later = vectors(encoder)
    train(encoder, 2)
    best.write()
    np.testing.assert_allclose(written(best), later, atol=1e-6)


def test_a_better_one_replaces_what_was_written(encoder: Encoder, best: Best) -> None:
    best.keep(3)
    best.write()
    train(encoder, 1)
    best.keep(3)
    best.write()
    np.testing.assert_allclose(written(best), vectors(encoder), atol=1e-6)


def test_a_full_disk_neither_changes_the_model_nor_loses_the_best(
    encoder: Encoder, best: Best, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*arguments: object, **named: object) -> NoReturn:
        raise OSError(28, "No space left on device")

    kept = vectors(encoder)
    best.keep(3)
    train(encoder, 1)
    own = vectors(encoder)
    with monkeypatch.context() as patch:
        patch.setattr(encoder, "save", full)
        with pytest.raises(OSError, match="No space left"):
            best.write()
    np.testing.assert_array_equal(vectors(encoder), own)
    best.write()
    np.testing.assert_allclose(written(best), kept, atol=1e-6)
