"""What is asked of every architecture. Each check raises what went wrong."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import torch
from zoo import ARCHITECTURES

import nearer
from nearer.encoder import Encoder
from nearer.export import export_onnx

SENTENCES = [
    "A man is eating lunch.",
    "rain",
    "The quick brown fox jumps over the lazy dog, again and again, until the evening comes.",
    "Someone has a meal with a quick dog",
    "Why would anybody measure sentences by the nearness of their meaning?",
]


def loaded(name: str, folder: Path, **options: Any) -> Encoder:
    return Encoder.load(folder, pooling=ARCHITECTURES[name].pooling, device="cpu", **options)


def encodes_as_transformers(name: str, folder: Path, tolerance: float = 1e-5) -> None:
    """Each sentence alone through plain transformers, against all of them together through ours."""
    encoder = loaded(name, folder)
    expected = np.stack([_plain(name, folder, encoder, sentence) for sentence in SENTENCES])
    np.testing.assert_allclose(encoder.encode(SENTENCES), expected, atol=tolerance, rtol=1e-4)


def survives_saving(name: str, folder: Path, saved: Path) -> None:
    """What is saved is loaded again, by us and by sentence-transformers, with the same vectors."""
    from sentence_transformers import SentenceTransformer

    encoder = loaded(name, folder)
    encoder.save(saved)
    ours = encoder.encode(SENTENCES)
    np.testing.assert_array_equal(Encoder.load(saved, device="cpu").encode(SENTENCES), ours)
    theirs = SentenceTransformer(str(saved), device="cpu")
    alone = np.concatenate([theirs.encode([sentence]) for sentence in SENTENCES])
    np.testing.assert_allclose(alone, ours, atol=ARCHITECTURES[name].theirs_within, rtol=1e-4)


def trains(name: str, folder: Path, run: Path) -> None:
    """Three steps of SimCSE move the weights, and the run ends with a model that can be loaded."""
    corpus, recipe = run.parent / f"{run.name}.txt", run.parent / f"{run.name}.yaml"
    corpus.write_text("".join(f"{a} {b}\n" for a in SENTENCES for b in ("again", "and again", "until evening", "")))
    recipe.write_text(
        f"method: simcse\nmodel: {folder}\npooling: {ARCHITECTURES[name].pooling}\nhead: false\nbatch_size: 4\n"
        "max_length: 24\nlearning_rate: 1e-3\nmax_steps: 3\nselect_on: []\ntest_on: []\n"
    )
    trained = nearer.train(recipe, corpus, out=run)
    before, after = loaded(name, folder).encode(SENTENCES), Encoder.load(trained.model, device="cpu").encode(SENTENCES)
    assert np.isfinite(after).all()
    assert np.abs(after - before).max() > 1e-4, "training changed nothing"


def exports(name: str, folder: Path, out: Path) -> None:
    """The export compares its vectors with the encoder's itself, and refuses to write what differs."""
    export_onnx(loaded(name, folder), out, sentences=["", *SENTENCES])


def _plain(name: str, folder: Path, encoder: Encoder, sentence: str) -> np.ndarray:
    from transformers import AutoModel, AutoModelForTextEncoding

    architecture = ARCHITECTURES[name]
    if folder not in _models:
        family = AutoModelForTextEncoding if "t5" in name else AutoModel
        _models[folder] = family.from_pretrained(folder, dtype=torch.float32).eval()
    given = _tokenizer(name, folder)(sentence, truncation=True, max_length=encoder.settings.max_length)
    ids, mask = (torch.tensor([given[key]]) for key in ("input_ids", "attention_mask"))
    padding = (0, architecture.trailing)
    with torch.no_grad():
        states = _models[folder](
            input_ids=torch.nn.functional.pad(ids, padding, value=encoder.tokenizer.pad_token_id or 0),
            attention_mask=torch.nn.functional.pad(mask, padding),
        ).last_hidden_state[0, : ids.shape[1]]
    return (states[-1] if architecture.pooling == "last_token" else states.mean(dim=0)).numpy()


def _tokenizer(name: str, folder: Path) -> Any:
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(folder)
    if name != "rembert":
        return tokenizer
    # made of its own file alone, transformers' has no tokens around a sentence until it was saved once
    with tempfile.TemporaryDirectory() as saved:
        tokenizer.save_pretrained(saved)
        return AutoTokenizer.from_pretrained(saved)


_models: dict[Path, Any] = {}
