"""DeCLUTR in the loop: whole steps against plain ones, and documents that it needs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from plain_loop import same_losses
from torch import Tensor
from torch.nn.functional import gelu, layer_norm

from nearer.encoder import Encoder
from nearer.errors import InputError
from nearer.methods import DeCLUTR, DeCLUTRSettings
from nearer.text.reading import read_sentences
from nearer.training.trainer import Trainer

SETTINGS: dict[str, Any] = {"method": "declutr", "head": False, "pooling": "mean", "shortest_span": 3}
SETTINGS |= {"document_tokens": 120, "batch_size": 4}


@pytest.fixture
def make(make_trainer: Callable[..., Trainer], corpus: Path) -> Callable[..., Trainer]:
    lines = corpus.read_text().splitlines()
    documents = [" ".join(lines[start : start + 9]) for start in range(0, len(lines) - 9, 3)]
    corpus.write_text("\n".join(documents) + "\n")
    return lambda **settings: make_trainer(**{**SETTINGS, **settings})


@pytest.mark.parametrize("masked_anchors", [True, False])
def test_steps_are_those_of_a_plain_loop(make: Callable[..., Trainer], masked_anchors: bool) -> None:
    trainer = make(learning_rate=1e-3, masked_anchors=masked_anchors)

    def by_hand(model: Any, step: int) -> Tensor:
        passes = trainer.method.inputs(trainer.feed.batch(step)).passes
        backbone, masked = model["encoder"].backbone, passes["masked"]

        def vector(row: Any) -> Tensor:
            return backbone(input_ids=torch.tensor(row)[None]).last_hidden_state[0].mean(dim=0)  # type: ignore[no-any-return]

        anchors = [vector(row) for row in (masked.rows if masked_anchors else masked.labels["targets"])]
        positives = [vector(row) for row in passes["positives"].rows]
        assert (len(anchors), len(positives)) == (8, 16)
        means = [(positives[2 * n] + positives[2 * n + 1]) / 2 for n in range(8)]
        views, losses = [*anchors, *means], []
        for i, one in enumerate(views):
            near = {
                j: (torch.dot(one, other) / one.norm() / other.norm() / 0.05).exp()
                for j, other in enumerate(views)
                if j != i
            }
            losses.append(-(near[(i + 8) % 16] / sum(near.values())).log())
        words = []
        head = model["method"]["language_head"]
        for row, right, chosen in zip(masked.rows, masked.labels["targets"], masked.chosen, strict=True):
            states = backbone(input_ids=torch.tensor(row)[None]).last_hidden_state[0]
            found = gelu(states @ head.dense.weight.T + head.dense.bias)
            found = layer_norm(found, found.shape[-1:], head.norm.weight, head.norm.bias, head.norm.eps)
            scores = found @ backbone.embeddings.word_embeddings.weight.T + head.bias
            words += [-scores[n].softmax(dim=-1)[right[n]].log() for n in chosen.nonzero()[0]]
        return torch.stack(losses).mean() + torch.stack(words).mean()

    same_losses(trainer, by_hand)


def test_spans_have_their_ends_and_are_no_longer_than_max_length(make: Callable[..., Trainer]) -> None:
    trainer = make(mlm_weight=0.0)
    passes = trainer.method.inputs(trainer.feed.batch(0)).passes
    assert set(passes) == {"anchors", "positives"}
    documents = trainer.feed.batch(0).fields[0]
    assert max(map(len, documents)) > 16
    for row in (*passes["anchors"].rows, *passes["positives"].rows):
        assert row[0] == documents[0][0]
        assert row[-1] == documents[0][-1]
        assert 3 <= len(row) <= 16


def test_sentences_are_refused(tiny_model: Callable[[str], Path]) -> None:
    encoder = Encoder.load(tiny_model("bert"), pooling="mean", device="cpu")
    reading = read_sentences(["a man is eating lunch", "it rains"] * 4, argument="corpus")
    with pytest.raises(InputError, match=r"8 of its first 8 records have fewer than 128 tokens.*needs documents"):
        DeCLUTR(DeCLUTRSettings()).prepare(encoder, reading, max_length=64)
