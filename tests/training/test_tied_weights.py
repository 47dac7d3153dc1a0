"""Models whose weights have several names (T5's word embeddings): saved once, tied again after resuming."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from nearer.encoder import Encoder
from nearer.encoder.backbone import quiet
from nearer.errors import TrainingError
from nearer.runs.checkpoints import Best, load_checkpoint, save_checkpoint
from nearer.training import resume, train
from nearer.training.trainer import Trainer

SHAPE = {"d_model": 32, "d_kv": 8, "d_ff": 48, "num_layers": 2, "num_decoder_layers": 1, "num_heads": 4}
# with nothing to select on and nothing to test, a run ends with its last step's weights
SETTINGS = {"pooling": "mean", "head": True, "max_steps": 3, "checkpoint_every": 1, "select_on": [], "test_on": []}


@pytest.fixture
def hub_form(tmp_path: Path, tiny_model: Callable[[str], Path]) -> Callable[[str], Path]:
    """A random checkpoint with encoder, decoder and head, as the hub has them."""
    import transformers

    def make(kind: str) -> Path:
        place = tmp_path / kind
        tokenizer = transformers.AutoTokenizer.from_pretrained(tiny_model("bert"))
        ids = {"pad_token_id": 0, "eos_token_id": 3, "decoder_start_token_id": 0}
        config = getattr(transformers, f"{kind}Config")(vocab_size=len(tokenizer), **SHAPE, **ids)
        torch.manual_seed(2)
        with quiet():
            getattr(transformers, f"{kind}ForConditionalGeneration")(config).save_pretrained(place)
        tokenizer.save_pretrained(place)
        return place

    return make


def is_tied(encoder: Encoder) -> bool:
    backbone: Any = encoder.backbone
    return backbone.shared.weight is backbone.encoder.embed_tokens.weight


@pytest.mark.parametrize("kind", ["T5", "MT5", "UMT5"])
def test_a_run_that_died_ends_as_the_straight_one(
    kind: str,
    hub_form: Callable[[str], Path],
    recipe: Path,
    corpus: Path,
    tmp_path: Path,
    weights: Callable[[Path], dict[str, Any]],
    stop_after: Callable[[int], AbstractContextManager[None]],
) -> None:
    model = hub_form(kind)
    straight, died = tmp_path / "straight", tmp_path / "died"
    train(recipe, corpus, model=model, out=straight, settings=SETTINGS)
    with stop_after(2):
        train(recipe, corpus, model=model, out=died, settings=SETTINGS)
    resume(died)
    ours, theirs = weights(straight), weights(died)
    assert ours.keys() == theirs.keys()
    assert any("embed" in name or "shared" in name for name in ours)
    assert all(torch.equal(ours[name], theirs[name]) for name in ours)


class TestCheckpoints:
    @pytest.fixture
    def trainer(self, hub_form: Callable[[str], Path], make_trainer: Callable[..., Trainer]) -> Trainer:
        return make_trainer(str(hub_form("T5")), pooling="mean")

    def test_tied_weights_are_written_once_and_stay_tied(self, trainer: Trainer, tmp_path: Path) -> None:
        assert is_tied(trainer.encoder)
        trainer.advance()
        place = save_checkpoint(tmp_path / "kept", 1, trainer.model, trainer.optimiser, {})
        names = [
            name
            for name in load_file(place / "weights.safetensors")
            if name.endswith(("shared.weight", "tokens.weight"))
        ]
        assert len(names) == 1
        wanted = trainer.encoder.backbone.shared.weight.detach().clone()  # type: ignore[union-attr]
        trainer.advance()
        trainer.close()
        load_checkpoint(place, trainer.model, trainer.optimiser)
        assert is_tied(trainer.encoder)
        assert torch.equal(trainer.encoder.backbone.shared.weight, wanted)  # type: ignore[union-attr]

    def test_the_best_weights_are_written_and_the_current_ones_stay(self, trainer: Trainer, tmp_path: Path) -> None:
        best = Best(trainer.encoder, tmp_path)
        best.keep(3)
        kept = trainer.encoder.backbone.shared.weight.detach().clone()  # type: ignore[union-attr]
        trainer.advance()
        trainer.close()
        current = trainer.encoder.backbone.shared.weight.detach().clone()  # type: ignore[union-attr]
        best.write()
        written = load_file(tmp_path / "best-00000003" / "model.safetensors")
        assert [name for name, tensor in written.items() if tensor.shape == kept.shape and torch.equal(tensor, kept)]
        assert is_tied(trainer.encoder)
        assert torch.equal(trainer.encoder.backbone.shared.weight, current)  # type: ignore[union-attr]
        assert not torch.equal(kept, current)

    def test_a_missing_weight_is_still_told(self, trainer: Trainer, tmp_path: Path) -> None:
        place = save_checkpoint(tmp_path / "kept", 1, trainer.model, trainer.optimiser, {})
        trainer.close()
        path = place / "weights.safetensors"
        kept = {name: tensor for name, tensor in load_file(path).items() if not name.endswith("shared.weight")}
        save_file(kept, path)
        with pytest.raises(TrainingError, match="does not fit the model"):
            load_checkpoint(place, trainer.model, trainer.optimiser)
