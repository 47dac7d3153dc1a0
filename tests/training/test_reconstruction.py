"""TSDAE in the loop: its decoders against transformers' own, and whole steps against plain ones."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from plain_loop import same_losses
from torch import Tensor
from torch.nn.functional import cross_entropy, gelu, layer_norm

from nearer.encoder import Encoder
from nearer.errors import SettingError
from nearer.methods.decoder import make_decoder
from nearer.training.trainer import Trainer

TakeSteps = Callable[[Trainer, int], Tensor]
KINDS = ["bert", "roberta", "distilbert", "mpnet", "mobilebert"]
SLOW = [pytest.param(kind, marks=pytest.mark.slow) for kind in ("roberta", "distilbert", "mpnet")]


@pytest.fixture
def make(make_trainer: Callable[..., Trainer]) -> Callable[..., Trainer]:
    def made(kind: str = "bert", **settings: Any) -> Trainer:
        return make_trainer(kind, **{"method": "tsdae", "head": False, "pooling": "cls", **settings})

    return made


def transformers_decoder(encoder: Any, decoder: Any) -> Any:
    """transformers' BERT as a decoder with cross-attention, with the weights of encoder and cross-attention."""
    config = copy.deepcopy(encoder.backbone.config)
    config.is_decoder = config.add_cross_attention = True
    theirs = transformers.BertModel(config, add_pooling_layer=False).eval()
    loaded = theirs.load_state_dict(encoder.backbone.state_dict(), strict=False)
    assert not loaded.unexpected_keys
    assert all(".crossattention." in name for name in loaded.missing_keys)
    for block, cross in zip(theirs.encoder.layer, decoder.cross, strict=True):
        attention = block.crossattention
        attention.self.value = cross.value
        attention.output.dense = cross.output
        attention.output.LayerNorm = cross.norm
    return theirs


def scores(model: Any, states: Tensor) -> Tensor:
    head = model["method"]["language_head"]
    hidden = gelu(states @ head.dense.weight.T + head.dense.bias)
    hidden = layer_norm(hidden, hidden.shape[-1:], head.norm.weight, head.norm.bias, head.norm.eps)
    return hidden @ model["encoder"].backbone.embeddings.word_embeddings.weight.T + head.bias


class TestTSDAE:
    def test_steps_are_those_of_a_plain_loop(self, make: Callable[..., Trainer]) -> None:
        """With transformers' own decoder, whose cross-attention has queries and keys, one sentence at a time."""
        trainer = make(learning_rate=1e-3)

        def by_hand(model: Any, step: int) -> Tensor:
            batch = trainer.feed.batch(step)
            damaged = trainer.method.inputs(trainer.feed.batch(step)).passes["damaged"].rows
            theirs = transformers_decoder(model["encoder"], model["method"]["decoder"])
            tied = dict(model["encoder"].backbone.named_parameters())
            losses = []
            for row, seen in zip(batch.fields[0], damaged, strict=True):
                vector = model["encoder"].backbone(input_ids=torch.tensor(seen)[None]).last_hidden_state[:, :1]
                given = {"input_ids": torch.tensor(row[:-1])[None], "encoder_hidden_states": vector}
                states = torch.func.functional_call(theirs, tied, kwargs=given).last_hidden_state[0]
                losses.append(cross_entropy(scores(model, states), torch.tensor(row[1:]), reduction="sum"))
            return torch.stack(losses).sum() / sum(len(row) - 1 for row in batch.fields[0])

        same_losses(trainer, by_hand)

    @pytest.mark.parametrize("kind", KINDS)
    def test_a_token_is_told_by_those_before_it_and_the_vector(
        self, kind: str, tiny_model: Callable[[str], Path]
    ) -> None:
        encoder = Encoder.load(tiny_model(kind), pooling="mean", device="cpu")
        ids = torch.arange(5, 13)[None]
        mask, vector = torch.ones_like(ids), torch.randn(1, encoder.dimension, generator=torch.manual_seed(0))
        for decoder in (make_decoder(encoder, name, layers=1, longest=16).eval() for name in ("tied", "small")):
            states = decoder.states(ids, mask, condition=vector)[0]
            for changed in range(8):
                other = ids.clone()
                other[0, changed] = 20
                moved = (decoder.states(other, mask, condition=vector)[0] - states).abs().amax(dim=-1)
                assert moved[:changed].lt(1e-5 * states.abs().max()).all()
                assert moved[changed:].gt(0).all()
            assert (decoder.states(ids, mask, condition=vector + 1)[0] != states).all(dim=-1).any()

    def test_the_decoder_has_the_encoders_weights(self, make: Callable[..., Trainer]) -> None:
        trainer = make()
        trainer.advance()
        trainer.close()
        own, tied = trainer.encoder.backbone, trainer.method.decoder.backbone
        assert all(one is other for one, other in zip(own.parameters(), tied.parameters(), strict=True))
        named = dict(trainer.model.named_parameters())
        assert not any(name.startswith("method.decoder.backbone") for name in named)

    def test_all_of_it_is_trained(self, make: Callable[..., Trainer]) -> None:
        for decoder in ("tied", "small"):
            trainer = make(decoder=decoder)
            trainer.advance()
            trainer.close()
            still = [
                name
                for name, weight in trainer.model.named_parameters()
                if not trainer.optimiser.state[weight]["exp_avg"].any()
            ]
            assert still == []

    @pytest.mark.parametrize("kind", ["mobilebert", "small", *SLOW])
    def test_in_pieces_as_at_once(self, make: Callable[..., Trainer], take_steps: TakeSteps, kind: str) -> None:
        own = {"kind": "bert", "decoder": "small"} if kind == "small" else {"kind": kind}
        wanted = take_steps(make(**own, max_length=24), 3)
        assert wanted[-1, 0] < wanted[0, 0] + 0.5
        torch.testing.assert_close(take_steps(make(**own, max_length=24, piece=3), 3), wanted, atol=1e-4, rtol=1e-3)

    def test_with_a_head(self, make: Callable[..., Trainer]) -> None:
        with pytest.raises(SettingError, match="set head=false"):
            make(head=True)

    def test_a_backbone_that_cannot_be_its_decoder(
        self, make: Callable[..., Trainer], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Such as one that looks at a token's neighbours in a way that is not known here."""
        monkeypatch.setattr("nearer.methods.decoder._trigram", lambda backbone: None)
        with pytest.raises(SettingError, match=r"MobileBertModel sees tokens that it has to predict.*decoder=small"):
            make("mobilebert")
