"""IS-BERT in the loop: whole steps against convolutions written out, and the saved layer against their mean."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from plain_loop import same_losses
from torch import Tensor
from torch.nn.functional import conv1d, softplus

from nearer.encoder import Encoder
from nearer.errors import SettingError
from nearer.methods import ISBERTSettings
from nearer.training import train
from nearer.training.trainer import Trainer


def convolved(ngrams: Any, states: Tensor) -> Tensor:
    """Three real convolutions over one sentence (tokens, width), its ends joined."""
    layer, size = ngrams.layer.linear, ngrams.layer.size_out
    by_shift = dict(zip(ngrams.shifts, ngrams.neighbours, strict=True))
    found, start = [], 0
    for window, count in zip((1, 3, 5), (11, 11, 10), strict=True):
        reach = window // 2
        taps = []
        for shift in range(-reach, reach + 1):
            if shift:
                tail = by_shift[shift].weight
                taps.append(tail[start - (size - len(tail)) :][:count])
            else:
                taps.append(layer.weight[start : start + count])
        taps[reach] = taps[reach] - sum(tap for n, tap in enumerate(taps) if n != reach)
        kernel = torch.stack(taps, dim=-1)  # (features, width, window)
        indices = torch.arange(-reach, len(states) + reach) % len(states)
        found.append(conv1d(states[indices].T[None], kernel, layer.bias[start : start + count])[0].T)
        start += count
    return torch.cat(found, dim=-1)


@pytest.fixture
def make(make_trainer: Callable[..., Trainer]) -> Callable[..., Trainer]:
    return lambda **settings: make_trainer(**{"method": "isbert", "head": False, "pooling": "mean", **settings})


def test_steps_are_those_of_a_plain_loop(make: Callable[..., Trainer]) -> None:
    trainer = make(learning_rate=1e-3)

    def by_hand(model: Any, step: int) -> Tensor:
        rows = trainer.feed.batch(step).fields[0]
        local = []
        for row in rows:
            states = model["encoder"].backbone(input_ids=torch.tensor(row)[None]).last_hidden_state[0]
            local.append(convolved(model["method"]["ngrams"], states))
        vectors, tokens = [each.mean(dim=0) for each in local], sum(map(len, rows))
        near = far = torch.zeros(())
        for i, features in enumerate(local):
            for j, vector in enumerate(vectors):
                r = features @ vector
                if i == j:
                    near = near + (math.log(2) - softplus(-r)).sum() / tokens
                else:
                    far = far + (softplus(-r) + r - math.log(2)).sum() / (tokens * (len(rows) - 1))
        return far - near

    same_losses(trainer, by_hand)


def test_the_saved_vector_is_the_mean_over_ngrams(
    recipe: Path, corpus: Path, tmp_path: Path, make: Callable[..., Trainer]
) -> None:
    settings = {"method": "isbert", "head": False, "pooling": "mean", "max_steps": 3, "select_on": [], "test_on": []}
    made = train(recipe, corpus, out=tmp_path / "run", settings=settings)
    encoder: Any = made.load("cpu")
    [layer] = encoder.projections
    trainer = make()
    ngrams = trainer.method.ngrams
    ngrams.layer.load_state_dict(layer.state_dict())
    sentence = "the quick brown fox"
    with torch.no_grad():
        ids = torch.tensor([encoder.tokenizer(sentence)["input_ids"]])
        wanted = convolved(ngrams, encoder.backbone(input_ids=ids).last_hidden_state[0]).mean(dim=0)
    torch.testing.assert_close(torch.tensor(encoder.encode(sentence)), wanted, atol=1e-5, rtol=1e-4)


def test_all_of_it_is_trained(make: Callable[..., Trainer]) -> None:
    trainer = make()
    assert trainer.encoder.projections[0] is trainer.method.ngrams.layer
    trainer.advance()
    trainer.close()
    state = trainer.optimiser.state
    assert all(state[weight]["exp_avg"].any() for weight in trainer.model.parameters())


@pytest.mark.parametrize(
    ("settings", "message"),
    [({"pooling": "cls"}, "set pooling=mean, not cls"), ({"head": True}, "has one already")],
)
def test_bad_input(make: Callable[..., Trainer], settings: dict[str, Any], message: str) -> None:
    with pytest.raises(SettingError, match=message):
        make(**settings)


def test_windows_without_a_middle() -> None:
    with pytest.raises(ValueError, match="odd number of tokens"):
        ISBERTSettings(windows=(2,))


def test_a_model_that_has_its_layer(tiny_model: Callable[[str], Path]) -> None:
    from nearer.methods import ISBERT

    encoder = Encoder.load(tiny_model("bert"), pooling="mean", device="cpu")
    ISBERT(ISBERTSettings()).prepare(encoder)
    with pytest.raises(SettingError, match="begin with a plain checkpoint"):
        ISBERT(ISBERTSettings()).prepare(encoder)
