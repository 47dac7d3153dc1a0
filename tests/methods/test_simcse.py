"""SimCSE's loss, from the encoder's own vectors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from nearer.encoder import Encoder
from nearer.encoder.encoding import pad
from nearer.errors import InputError, SettingError
from nearer.methods import SimCSE, SimCSESettings
from nearer.methods.contract import Batch
from nearer.objectives import info_nce

ROWS = ["a man is eating lunch", "rain", "the quick brown fox jumps", "someone has a meal again"]
OTHERS = ["someone has a meal", "it rains again", "a lazy dog", "lunch is eaten"]
THIRDS = ["nobody eats", "the evening comes", "a fox", "far away"]


@pytest.fixture
def encoder(tiny_model: Callable[[str], Path]) -> Encoder:
    overrides = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    return Encoder.load(tiny_model("bert"), pooling="cls", device="cpu", overrides=overrides).train()


def batch(encoder: Encoder, *fields: Sequence[str], seed: int = 0) -> Batch:
    tokens = [[np.array(encoder.tokenizer(text)["input_ids"]) for text in field] for field in fields]
    random = np.random.default_rng(seed)
    return Batch(
        tokens, np.arange(len(fields[0])), [len(fields[0])], random, lambda rows: pad(rows, 0, torch.device("cpu"))
    )


def method(encoder: Encoder, **settings: Any) -> SimCSE:
    made = SimCSE(SimCSESettings(**settings))
    made.prepare(encoder)
    return made


def vectors(encoder: Encoder, texts: Sequence[str]) -> torch.Tensor:
    return torch.from_numpy(encoder.encode(list(texts)))


def test_sentences_are_their_own_positives(encoder: Encoder) -> None:
    loss = method(encoder, temperature=0.3).loss(encoder, batch(encoder, ROWS))
    own = vectors(encoder, ROWS)
    torch.testing.assert_close(loss.total, info_nce(own, own, temperature=0.3), atol=1e-5, rtol=1e-5)
    assert list(loss.parts) == ["contrastive"]


def test_pairs_and_triplets(encoder: Encoder) -> None:
    made = method(encoder, hard_negative_weight=3.0)
    pairs = made.loss(encoder, batch(encoder, ROWS, OTHERS)).total
    first, second, third = (vectors(encoder, texts) for texts in (ROWS, OTHERS, THIRDS))
    torch.testing.assert_close(pairs, info_nce(first, second), atol=1e-4, rtol=1e-4)
    triplets = made.loss(encoder, batch(encoder, ROWS, OTHERS, THIRDS)).total
    torch.testing.assert_close(triplets, info_nce(first, second, third, hard_negative_weight=3.0), atol=1e-4, rtol=1e-4)
    with pytest.raises(InputError, match="lists of 4"):
        made.loss(encoder, batch(encoder, ROWS, OTHERS, THIRDS, ROWS))


def test_dropout_makes_the_views_differ_and_fixed_masks_make_them_equal(tiny_model: Callable[[str], Path]) -> None:
    encoder = Encoder.load(tiny_model("bert"), pooling="cls", device="cpu", overrides={"hidden_dropout_prob": 0.3})
    encoder.train()

    def views(**settings: Any) -> Sequence[torch.Tensor]:
        made, rows = method(encoder, **settings), batch(encoder, ROWS)
        return made._encoded(encoder, made._views(rows), rows)

    first, second = views()
    assert not torch.allclose(first, second)
    first, second = views(fixed_masks=True)
    torch.testing.assert_close(first, second)


def test_a_second_encoder_takes_the_positives_and_is_trained(encoder: Encoder) -> None:
    made = method(encoder, two_encoders=True)
    assert list(made.modules()) == ["second"]
    with torch.no_grad():
        for parameter in made.second.parameters():
            parameter.add_(0.02)
    loss = made.loss(encoder, batch(encoder, ROWS)).total
    expected = info_nce(vectors(encoder, ROWS), vectors(made.second, ROWS))
    torch.testing.assert_close(loss, expected, atol=1e-4, rtol=1e-4)
    loss.backward()
    assert made.second.backbone.embeddings.word_embeddings.weight.grad.abs().sum() > 0


def test_augmentation_changes_the_second_view_only(encoder: Encoder) -> None:
    made = method(encoder, augmentation="delete_one_word")
    anchors, positives = made._views(batch(encoder, ROWS))
    assert [ids.tolist() for ids in anchors] == [encoder.tokenizer(text)["input_ids"] for text in ROWS]
    assert [len(ids) for ids in positives] < [len(ids) for ids in anchors]


class TestMaskedLanguage:
    def test_the_parts_add_up_with_the_weight(self, encoder: Encoder) -> None:
        made = method(encoder, mlm_weight=0.25)
        losses = made.loss(encoder, batch(encoder, ROWS))
        expected = losses.parts["contrastive"] + 0.25 * losses.parts["mlm"]
        torch.testing.assert_close(losses.total, expected)
        losses.total.backward()
        assert made.language_head.dense.weight.grad.abs().sum() > 0
        assert list(made.modules()) == ["language_head"]

    def test_it_is_the_mean_cross_entropy_of_the_chosen_tokens(self, encoder: Encoder) -> None:
        made = method(encoder, mlm_weight=1.0, mlm_rate=0.5)
        rows = batch(encoder, ROWS, seed=3)
        losses = made.loss(encoder, rows)
        random = np.random.default_rng(3)
        summed, count = 0.0, 0
        with torch.no_grad():
            for text in [*ROWS, *ROWS]:  # both copies, masked each for itself
                ids = np.array(encoder.tokenizer(text)["input_ids"])
                masked, chosen = made.masker(ids, random)
                states = encoder.states(torch.from_numpy(masked)[None], torch.ones(1, len(ids), dtype=torch.long))[0]
                scores = made.language_head(states, encoder.backbone.embeddings.word_embeddings.weight).log_softmax(-1)
                summed -= sum(scores[place, ids[place]].item() for place in np.flatnonzero(chosen))
                count += int(chosen.sum())
        assert losses.parts["mlm"].item() == pytest.approx(summed / count, rel=1e-4)

    def test_the_head_of_the_checkpoint_is_found(self) -> None:
        encoder = Encoder.load("wiki-mini", pooling="mean", device="cpu")
        made = SimCSE(SimCSESettings(mlm_weight=0.1))
        assert made.prepare(encoder) == []
        encoder.eval()
        ids = torch.tensor([encoder.tokenizer("the capital of france is [MASK] .")["input_ids"]])
        place = ids[0].tolist().index(encoder.tokenizer.mask_token_id)
        with torch.no_grad():
            states = encoder.states(ids, torch.ones_like(ids))[0, place]
            scores = made.language_head(states[None], encoder.backbone.embeddings.word_embeddings.weight)[0]
        likely = encoder.tokenizer.convert_ids_to_tokens(scores.topk(20).indices.tolist())
        assert "paris" in likely

    def test_a_checkpoint_without_one_gets_a_fresh_head_and_a_remark(self, encoder: Encoder) -> None:
        assert "fresh" in SimCSE(SimCSESettings(mlm_weight=0.1)).prepare(encoder)[0]

    def test_a_tokenizer_without_a_mask_is_refused(self, encoder: Encoder, monkeypatch: pytest.MonkeyPatch) -> None:
        encoder.tokenizer.mask_token = None
        with pytest.raises(SettingError, match="mlm_weight"):
            method(encoder, mlm_weight=0.1)
