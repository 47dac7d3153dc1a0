"""Views that differ by dropout: backbones whose own rate is 0 get one, and equal views are an error."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml

from nearer.encoder import Encoder
from nearer.encoder.views import views_differ
from nearer.errors import ModelError, SettingError
from nearer.methods import METHODS
from nearer.training import resume, train
from nearer.training.starting_encoder import load_with_views

SHAPE: dict[str, Any] = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 64,
    "initializer_range": 0.3,  # else attention would hardly count, and its dropout neither
}
DECODER = {**SHAPE, "num_key_value_heads": 2, "max_position_embeddings": 64, "head_dim": 8}
# what transformers' classes are called by, and what the configuration is given
KINDS: dict[str, dict[str, Any]] = {
    "ModernBert": {**SHAPE, "max_position_embeddings": 64, "cls_token_id": 2, "sep_token_id": 3},
    "EuroBert": DECODER,
    "Llama": DECODER,
    "Qwen2": DECODER,
    "Qwen3": DECODER,
    "Gemma": DECODER,
    "Gemma2": DECODER,
    "Mistral": DECODER,
    "Albert": {**SHAPE, "embedding_size": 16, "max_position_embeddings": 64},
    "GPTNeoX": {**SHAPE, "max_position_embeddings": 64},
}
NOTHING_ELSE = {"select_on": [], "test_on": []}


@pytest.fixture
def silent(tmp_path: Path, tiny_model: Callable[[str], Path]) -> Callable[[str], Path]:
    """A random checkpoint of an architecture whose own dropout is 0, with a real tokenizer."""
    import transformers

    def make(kind: str) -> Path:
        place = tmp_path / kind
        tokenizer = transformers.AutoTokenizer.from_pretrained(tiny_model("bert"))
        ids = {"vocab_size": len(tokenizer), "pad_token_id": 0, "bos_token_id": 2, "eos_token_id": 3}
        config = getattr(transformers, f"{kind}Config")(**ids, **KINDS[kind])
        torch.manual_seed(3)
        getattr(transformers, f"{kind}Model")(config).save_pretrained(place)
        tokenizer.save_pretrained(place)
        return place

    return make


def contrastive_losses(run: Path) -> list[float]:
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    return [line["loss"] for line in lines if "loss" in line]


class TestBackbonesWithoutDropout:
    @pytest.mark.parametrize("kind", KINDS)
    def test_their_views_are_equal_until_a_rate_is_set(self, kind: str, silent: Callable[[str], Path]) -> None:
        folder = silent(kind)
        assert not views_differ(Encoder.load(folder, pooling="mean", device="cpu"))
        assert views_differ(Encoder.load(folder, pooling="mean", device="cpu", dropout=0.1))

    @pytest.mark.parametrize("kind", ["ModernBert", "Llama", "Qwen3", "EuroBert"])
    def test_a_run_sets_one_says_so_and_learns_from_views_that_differ(
        self,
        kind: str,
        silent: Callable[[str], Path],
        recipe: Path,
        corpus: Path,
        tmp_path: Path,
        capsys: pytest.CaptureFixture[str],
    ) -> None:
        model = silent(kind)
        settings = {"pooling": "mean", "head": False, "max_steps": 3, **NOTHING_ELSE}
        made = train(recipe, corpus, model=model, out=tmp_path / "run", settings=settings, progress=True)
        told = " ".join(capsys.readouterr().err.split())
        assert "has none of its own" in told
        assert "set to 0.1" in told
        assert made.load("cpu").provenance["settings"]["dropout"] == 0.1
        equal = {**settings, "fixed_masks": True, "dropout": 0.0}
        train(recipe, corpus, model=model, out=tmp_path / "equal", settings=equal)
        ours, without = contrastive_losses(tmp_path / "run"), contrastive_losses(tmp_path / "equal")
        assert ours[0] > without[0]  # of equal views the positive's cosine is 1
        assert len(set(ours)) == 3

    def test_another_rate_is_the_recipe_s(
        self, silent: Callable[[str], Path], recipe: Path, corpus: Path, tmp_path: Path
    ) -> None:
        settings = {"pooling": "mean", "head": False, "max_steps": 1, "dropout": 0.25, **NOTHING_ELSE}
        made = train(recipe, corpus, model=silent("Llama"), out=tmp_path / "run", settings=settings)
        assert made.load("cpu").backbone.config.attention_dropout == 0.25


class TestEqualViews:
    def test_no_dropout_asked_for_is_refused_with_the_mend(self, recipe: Path, corpus: Path, tmp_path: Path) -> None:
        with pytest.raises(SettingError, match=r"dropout: 0 leaves both views .* set dropout=0\.1"):
            train(recipe, corpus, out=tmp_path / "run", settings={"dropout": 0.0})
        assert not (tmp_path / "run").exists()

    @pytest.mark.parametrize(
        "settings",
        [
            {"fixed_masks": True},
            {"augmentation": "delete_one_word"},
            {"augmentation": "crop"},
        ],
    )
    def test_they_are_no_matter_where_dropout_makes_no_views(
        self, settings: dict[str, Any], recipe: Path, corpus: Path, tmp_path: Path
    ) -> None:
        train(
            recipe, corpus, out=tmp_path / "run", settings={"dropout": 0.0, "max_steps": 1, **NOTHING_ELSE, **settings}
        )

    def test_a_model_without_any_dropout_is_told_what_to_do(
        self, tiny_model: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        encoder = Encoder.load(tiny_model("bert"), pooling="mean", device="cpu", dropout=0.0)
        monkeypatch.setattr("nearer.training.starting_encoder.DROPOUT_RATES", ())
        with pytest.raises(ModelError, match=r"tiny: its architecture \(bert\) has no dropout.*augmentation"):
            load_with_views(lambda dropout: encoder, "tiny", None)

    def test_a_rate_that_the_architecture_does_not_use_is_found_out(self, tiny_model: Callable[[str], Path]) -> None:
        encoder = Encoder.load(tiny_model("bert"), pooling="mean", device="cpu", dropout=0.0)
        with pytest.raises(ModelError, match="has no dropout"):
            load_with_views(lambda dropout: encoder, "tiny", None)

    def test_trying_changes_neither_mode_nor_random_numbers(self, tiny_model: Callable[[str], Path]) -> None:
        encoder = Encoder.load(tiny_model("bert"), pooling="mean", device="cpu")
        torch.manual_seed(5)
        wanted = torch.rand(3)
        torch.manual_seed(5)
        assert views_differ(encoder)
        assert not encoder.training
        assert torch.equal(torch.rand(3), wanted)


@pytest.mark.parametrize(
    ("method", "settings", "data", "relies"),
    [
        ("simcse", {}, "sentences", True),
        ("simcse", {}, "pairs", False),
        ("simcse", {}, "triplets", False),
        ("simcse", {"fixed_masks": True}, "sentences", False),
        ("simcse", {"two_encoders": True}, "sentences", True),
        ("simcse", {"augmentation": "crop"}, "sentences", False),
        ("simcse", {"augmentation": "crop", "augmentation_rate": 0}, "sentences", True),
        ("simcse", {"augmentation": "delete_one_word", "augmentation_rate": 0}, "sentences", False),
        ("rankcse", {"teachers": ["a"]}, "sentences", True),
        ("rankcse", {"teachers": ["a"], "contrastive_weight": 0, "consistency_weight": 0}, "sentences", False),
        ("rankencoder", {"teachers": ["a"]}, "sentences", True),
        ("debcse", {}, "debiased", False),
        ("debcse", {"mined_positives": False}, "debiased", True),
        ("refine", {}, "lists", False),
        ("lists", {}, "scored", False),
    ],
)
def test_methods_say_whether_they_rely_on_dropout(
    method: str, settings: dict[str, Any], data: str, relies: bool
) -> None:
    method_class, settings_class = METHODS[method], METHODS[method].Settings
    assert method_class(settings_class(**settings)).relies_on_dropout(data) is relies


def test_a_resumed_run_has_the_same_rate(
    silent: Callable[[str], Path],
    recipe: Path,
    corpus: Path,
    tmp_path: Path,
    weights: Callable[[Path], dict[str, Any]],
    stop_after: Callable[[int], AbstractContextManager[None]],
) -> None:
    """The rate is not in the run's recipe: it follows from the model again."""
    settings = {"pooling": "mean", "head": False, "max_steps": 4, "checkpoint_every": 2, **NOTHING_ELSE}
    straight, stopped = tmp_path / "straight", tmp_path / "stopped"
    model = silent("Llama")
    train(recipe, corpus, model=model, out=straight, settings=settings)
    with stop_after(3):
        train(recipe, corpus, model=model, out=stopped, settings=settings)
    assert yaml.safe_load((stopped / "config.yaml").read_text())["settings"]["dropout"] is None
    resume(stopped)
    ours, theirs = weights(straight), weights(stopped)
    assert ours.keys() == theirs.keys()
    assert all(torch.equal(ours[name], theirs[name]) for name in ours)
