"""TSDAE and InfoCSE in the loop: whole steps against plain ones, and what reaches what."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import pytest
import torch
import transformers
from plain_loop import same_losses
from prompt_by_hand import batch_norm, contrast
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


class TestInfoCSE:
    SETTINGS: ClassVar[dict[str, Any]] = {"method": "infocse", "mlm_weight": 0.5, "lower_blocks": 1}

    def test_steps_are_those_of_a_plain_loop(self, make: Callable[..., Trainer]) -> None:
        trainer = make(**self.SETTINGS, learning_rate=1e-3)

        def by_hand(model: Any, step: int) -> Tensor:
            rows = [row for row in trainer.feed.batch(step).fields[0] for _ in range(2)]
            masked = trainer.method.inputs(trainer.feed.batch(step)).passes["masked"]
            parts = model["method"]
            raw, losses = [], []
            for row, hidden, chosen in zip(rows, masked.rows, masked.chosen, strict=True):
                vector = model["encoder"].backbone(input_ids=torch.tensor(row)[None]).last_hidden_state[0, 0]
                raw.append(vector)
                with torch.no_grad():  # embeddings and one block of the checkpoint
                    lower = parts["side"].lower
                    states = lower.encoder.layer[0](lower.embeddings(input_ids=torch.tensor(hidden)[None]))
                states = torch.cat([vector[None, None], states[:, 1:]], dim=1)
                for block in parts["side"].upper.encoder.layer:
                    states = block(states)
                head = parts["words"].head
                found = gelu(states[0] @ head.dense.weight.T + head.dense.bias)
                found = layer_norm(found, found.shape[-1:], head.norm.weight, head.norm.bias, head.norm.eps)
                scores = found @ parts["words"].words.T + head.bias
                losses += [-scores[n].softmax(dim=-1)[row[n]].log() for n in chosen.nonzero()[0]]
            projector = parts["projector"]
            inner = batch_norm(torch.stack(raw) @ projector.first.weight.T)
            inner = torch.relu(inner * projector.first_norm.weight + projector.first_norm.bias)
            projected = batch_norm(inner @ projector.second.weight.T)
            contrastive = contrast(list(projected[0::2]), list(projected[1::2]), 0.05)
            return contrastive + 0.5 * torch.stack(losses).mean()

        same_losses(trainer, by_hand)

    def test_words_reach_the_encoder_through_its_vector_alone(self, make: Callable[..., Trainer]) -> None:
        trainer = make(**self.SETTINGS)
        loss = trainer.method.loss

        def words_alone(*given: Any) -> Any:
            losses = loss(*given)
            return type(losses)(losses.parts["mlm"], losses.parts)

        trainer.method.loss = words_alone
        trainer.advance()
        trainer.close()
        state = trainer.optimiser.state
        moved: dict[str, bool] = {}
        for name, weight in trainer.model.named_parameters():
            part = ".".join(name.split(".")[:3])
            moved[part] = moved.get(part, False) or (weight in state and bool(state[weight]["exp_avg"].any()))
        assert moved == {
            "encoder.backbone.embeddings": True,
            "encoder.backbone.encoder": True,
            "method.projector.first": False,
            "method.projector.first_norm": False,
            "method.projector.second": False,
            "method.side.lower": False,
            "method.side.upper": True,
            "method.words.words": True,
            "method.words.head": True,
        }
        words = trainer.encoder.backbone.get_input_embeddings().weight
        unread = set(range(len(words))) - {int(id) for row in trainer.feed.batch(0).fields[0] for id in row}
        assert not state[words]["exp_avg"][sorted(unread)].any()

    def test_frozen_blocks_have_no_dropout(self, make: Callable[..., Trainer]) -> None:
        trainer = make(**self.SETTINGS, dropout=0.5)
        side = trainer.working.modules["side"]
        assert side.training
        assert side.upper.training
        assert not any(module.training for module in side.lower.modules())

    @pytest.mark.parametrize("kind", ["mobilebert", *SLOW])
    def test_in_pieces_as_at_once(self, make: Callable[..., Trainer], take_steps: TakeSteps, kind: str) -> None:
        way = {**self.SETTINGS, "pooling": "mean", "max_length": 24}
        wanted = take_steps(make(kind, **way), 3)
        torch.testing.assert_close(take_steps(make(kind, piece=3, **way), 3), wanted, atol=1e-4, rtol=1e-3)

    @pytest.mark.parametrize(
        ("settings", "message"),
        [
            ({"head": True}, "set head=false"),
            ({"lower_blocks": 9}, "lower_blocks: 9 asked for, .* has 3"),
            ({"pooling": "cls+mean"}, "vectors of 64 numbers and tokens of 32"),
        ],
    )
    def test_bad_input(self, make: Callable[..., Trainer], settings: dict[str, Any], message: str) -> None:
        with pytest.raises(SettingError, match=message):
            make(**{**self.SETTINGS, **settings})
