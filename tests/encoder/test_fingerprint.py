"""Fingerprints: equal for copies of a model, different wherever a vector could be."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from nearer.encoder import Encoder
from nearer.encoder.fingerprint import encoder_fingerprint
from nearer.encoder.parts import Dense, Norm

Tiny = Callable[[str], Path]


@pytest.fixture
def load(tiny_model: Tiny) -> Callable[..., Encoder]:
    def load(kind: str = "bert", pooling: str = "cls", **options: object) -> Encoder:
        return Encoder.load(tiny_model(kind), pooling=pooling, device="cpu", **options)  # type: ignore[arg-type]

    return load


def saved(encoder: Encoder, folder: Path) -> Encoder:
    encoder.save(folder)
    return Encoder.load(folder, device="cpu")


def with_head(encoder: Encoder, seed: int = 0) -> Encoder:
    encoder.add_head(torch.Generator().manual_seed(seed))
    return encoder


def with_projections(encoder: Encoder, *layers: Dense | Norm) -> Encoder:
    return Encoder(encoder.backbone, encoder.tokenizer, encoder.settings, projections=layers).eval()


class TestEqual:
    @pytest.mark.parametrize(
        ("kind", "pooling"),
        [
            *((kind, "first_last_mean") for kind in ("bert", "roberta", "distilbert", "mpnet", "mobilebert")),
            *(("bert", pooling) for pooling in ("cls", "cls_before_head", "cls+mean")),
        ],
    )
    def test_of_a_saved_model(self, kind: str, pooling: str, load: Callable[..., Encoder], tmp_path: Path) -> None:
        encoder = load(kind, pooling)
        first = saved(encoder, tmp_path / "once")
        again = saved(first, tmp_path / "twice")
        assert encoder_fingerprint(first) == encoder_fingerprint(encoder) == encoder_fingerprint(again)

    def test_with_a_head_that_is_kept(self, load: Callable[..., Encoder], tmp_path: Path) -> None:
        encoder = with_head(load(pooling="cls"))
        assert encoder_fingerprint(saved(encoder, tmp_path / "model")) == encoder_fingerprint(encoder)

    def test_with_the_checkpoint_s_pooler_as_head(self, load: Callable[..., Encoder], tmp_path: Path) -> None:
        encoder = load(pooler_as_head=True)
        assert encoder_fingerprint(saved(encoder, tmp_path / "model")) == encoder_fingerprint(encoder)

    def test_with_a_head_for_training_only(self, load: Callable[..., Encoder], tmp_path: Path) -> None:
        plain, encoder = load(pooling="cls_before_head"), with_head(load(pooling="cls_before_head"))
        assert encoder_fingerprint(saved(encoder, tmp_path / "model")) == encoder_fingerprint(encoder)
        assert encoder_fingerprint(encoder) == encoder_fingerprint(plain)

    def test_with_all_settings(self, load: Callable[..., Encoder], tmp_path: Path) -> None:
        encoder = load(max_length=20, text_normalisation="full_stop")
        encoder.settings = replace(
            encoder.settings,
            normalize=True,
            prompts={"query": "rain ", "passage": "a man "},
            default_prompt="passage",
            pool_prompt=False,
        )
        encoder = with_projections(encoder, Dense(32, 16, activation="GELU"), Norm(16))
        assert encoder_fingerprint(saved(encoder, tmp_path / "model")) == encoder_fingerprint(encoder)

    def test_dropout_and_mode_matter_in_training_only(self, load: Callable[..., Encoder]) -> None:
        wanted = encoder_fingerprint(load())
        assert encoder_fingerprint(load(dropout=0.3)) == wanted
        assert encoder_fingerprint(load().train()) == wanted

    def test_use_leaves_it(self, load: Callable[..., Encoder], sentences: list[str], tmp_path: Path) -> None:
        encoder = load(pooling="first_last_mean")
        before = encoder_fingerprint(encoder)
        encoder.encode(sentences, precision="bf16")
        encoder.tokenizer(sentences, padding=True, truncation=True, max_length=5)
        encoder.save(tmp_path / "model")
        assert encoder_fingerprint(encoder) == before


class TestDifferent:
    """Each against the model as it is; where vectors differ visibly, that is shown too."""

    @pytest.fixture
    def plain(self, load: Callable[..., Encoder]) -> str:
        return encoder_fingerprint(load())

    @pytest.mark.parametrize(
        "options",
        [
            {"pooling": "mean"},
            {"pooling": "cls_before_head"},
            {"max_length": 20},
            {"text_normalisation": "full_stop"},
            {"text_normalisation": "lowercase"},
            {"pooler_as_head": True},
            {"overrides": {"layer_norm_eps": 1e-3}},
            {"overrides": {"hidden_act": "relu"}},
            {"kind": "mpnet"},
        ],
    )
    def test_settings(self, options: dict[str, object], plain: str, load: Callable[..., Encoder]) -> None:
        assert encoder_fingerprint(load(**options)) != plain

    @pytest.mark.parametrize(
        "change",
        [
            {"normalize": True},
            {"prompts": {"query": "rain "}},
            {"prompts": {"query": "rain "}, "default_prompt": "query"},
            {"pool_prompt": False},
        ],
    )
    def test_what_the_layout_says(self, change: dict[str, object], plain: str, load: Callable[..., Encoder]) -> None:
        encoder = load()
        encoder.settings = replace(encoder.settings, **change)  # type: ignore[arg-type]
        assert encoder_fingerprint(encoder) != plain

    def test_the_last_bit_of_any_weight(self, plain: str, load: Callable[..., Encoder]) -> None:
        names = list(load().state_dict())
        found = {plain}
        for name in (names[0], names[len(names) // 2], names[-1]):
            encoder = load()
            flat = encoder.state_dict()[name].view(-1)
            flat[-1] = torch.nextafter(flat[-1], torch.tensor(9.0))
            found.add(encoder_fingerprint(encoder))
        assert len(found) == 4

    def test_equal_weights_under_other_names(self, load: Callable[..., Encoder]) -> None:
        encoder = load()
        before = encoder_fingerprint(encoder)
        layers = encoder.backbone.encoder.layer
        layers[0], layers[1] = layers[1], layers[0]
        assert encoder_fingerprint(encoder) != before

    def test_the_tokenizer(self, plain: str, load: Callable[..., Encoder]) -> None:
        from tokenizers import normalizers

        longer, cased, cut_left = load(), load(), load()
        longer.tokenizer.add_tokens(["quick fox"])
        cased.tokenizer.backend_tokenizer.normalizer = normalizers.BertNormalizer(lowercase=False)
        cut_left.tokenizer.truncation_side = "left"
        found = {encoder_fingerprint(encoder) for encoder in (longer, cased, cut_left)}
        assert len({plain, *found}) == 4

    def test_heads_that_are_kept(self, plain: str, load: Callable[..., Encoder]) -> None:
        found = {encoder_fingerprint(with_head(load(), seed)) for seed in (0, 1)}
        assert len({plain, *found}) == 3

    @pytest.mark.parametrize("place", ["head", "projections"])
    def test_activations(self, place: str, load: Callable[..., Encoder]) -> None:
        """They are no weights."""
        dense = Dense(32, 32, activation="Tanh")
        other = Dense(32, 32, activation="Sigmoid")
        other.load_state_dict(dense.state_dict())
        made = []
        for layer in (dense, other):
            encoder = load()
            if place == "head":
                encoder.head = layer
            else:
                encoder = with_projections(encoder, layer)
            made.append(encoder)
        assert np.abs(made[0].encode("rain") - made[1].encode("rain")).max() > 0.1
        assert encoder_fingerprint(made[0]) != encoder_fingerprint(made[1])

    def test_a_projection_is_no_head_for_training_only(self, load: Callable[..., Encoder]) -> None:
        dense = Dense(32, 32)
        headed = load(pooling="cls_before_head")
        headed.head = copy.deepcopy(dense)
        projected = with_projections(load(pooling="cls_before_head"), dense)
        assert encoder_fingerprint(headed) != encoder_fingerprint(projected)
