"""Models to measure with: of a known shape with random weights, since speed does not depend on their values."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

import torch

from nearer.encoder.backbone import quiet
from nearer.encoder.sources import BUNDLED, model_folder
from nearer.errors import SettingError

TOKENIZER = BUNDLED / "wiki-mini"


@dataclass(frozen=True)
class Shape:
    """Of a BERT. The vocabulary has BERT's size, whatever the tokenizer uses of it: the embedding table is to be
    as large as it is in earnest."""

    width: int
    layers: int
    heads: int
    vocabulary: int = 30_522


SHAPES = {"base": Shape(768, 12, 12), "small": Shape(512, 4, 8), "tiny": Shape(128, 2, 2, 16_384)}


def model_or_shape(name: str | None, shape: str | None, folder: Path) -> tuple[Path, str]:
    """The folder of the named model, or of one of this shape made in `folder`; and what it is in words."""
    if name is not None:
        return model_folder(name), name
    assert shape is not None
    return random_model(shape, folder), f"BERT of shape {shape}, random weights"


def random_model(shape: str, folder: Path, *, seed: int = 0) -> Path:
    """A plain BERT checkpoint of this shape with the bundled WordPiece tokenizer, written into `folder`."""
    from transformers import BertConfig, BertModel

    if shape not in SHAPES:
        raise SettingError(f"shape: {shape!r} is not one of {', '.join(SHAPES)}.")
    wanted = SHAPES[shape]
    config = BertConfig(
        vocab_size=wanted.vocabulary,
        hidden_size=wanted.width,
        num_hidden_layers=wanted.layers,
        num_attention_heads=wanted.heads,
        intermediate_size=4 * wanted.width,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = BertModel(config, add_pooling_layer=False)  # type: ignore[no-untyped-call]
    with quiet():
        model.save_pretrained(folder)
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copyfile(TOKENIZER / name, folder / name)
    return folder


def random_generator(model: Path, folder: Path, *, seed: int = 0) -> tuple[Path, str]:
    """A masked language model beside a model, written into `folder`, and what it is in words.

    DistilBERT is to BERT-base what it is to the model: as wide, with half of its layers, and with its tokens.
    """
    from transformers import AutoConfig, AutoTokenizer, DistilBertConfig, DistilBertForMaskedLM

    beside = AutoConfig.from_pretrained(model)
    layers = max(1, beside.num_hidden_layers // 2)
    config = DistilBertConfig(
        vocab_size=beside.vocab_size,
        max_position_embeddings=beside.max_position_embeddings,
        dim=beside.hidden_size,
        n_layers=layers,
        n_heads=beside.num_attention_heads,
        hidden_dim=4 * beside.hidden_size,
        pad_token_id=beside.pad_token_id or 0,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        generator = DistilBertForMaskedLM(config)
    with quiet():
        generator.save_pretrained(folder)
        AutoTokenizer.from_pretrained(model).save_pretrained(folder)
    counted = "1 layer" if layers == 1 else f"{layers} layers"
    return folder, f"a DistilBERT of random weights: {counted}, as wide as the model"
