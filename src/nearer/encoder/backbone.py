"""Loading a transformers encoder strictly: safetensors only, float32, every weight accounted for."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import nn

from nearer.encoder.pickles import PICKLE_MEND
from nearer.encoder.projection import Dense
from nearer.errors import ModelError, first_line

# Weights of pretraining or task heads: they stand outside the encoder and are expected in plain checkpoints.
TASK_HEADS = (
    "cls.",
    "lm_head.",
    "pooler.",
    "classifier.",
    "score.",
    "qa_outputs.",
    "vocab_transform.",
    "vocab_layer_norm.",
    "vocab_projector.",
    "predictions.",
    "generator_",
    "discriminator_predictions.",
    "seq_relationship.",
    "head.",
    "decoder.",
)
TOKENIZER_FILES = (
    "tokenizer.json",
    "vocab.txt",
    "vocab.json",
    "spiece.model",
    "sentencepiece.bpe.model",
    "tokenizer.model",
)


# Where configurations of different families keep their dropout rates.
DROPOUT_RATES = (
    "hidden_dropout_prob",
    "attention_probs_dropout_prob",
    "dropout",
    "attention_dropout",
    "dropout_rate",
    "embedding_dropout",
    "mlp_dropout",
)


def load_tokenizer(folder: Path, *, trust_remote_code: bool = False) -> Any:
    from transformers import AutoTokenizer

    if not any((folder / name).exists() for name in TOKENIZER_FILES):
        raise ModelError(f"{folder}: has no tokenizer ({', '.join(TOKENIZER_FILES[:3])} …).")
    try:
        return AutoTokenizer.from_pretrained(folder, trust_remote_code=trust_remote_code)
    except Exception as error:
        raise ModelError(f"{folder}: its tokenizer cannot be loaded ({first_line(error)}).") from error


def load_backbone(
    folder: Path,
    *,
    trust_remote_code: bool = False,
    overrides: Mapping[str, Any] | None = None,
    dropout: float | None = None,
    pooler: bool = False,
) -> nn.Module:
    """The encoder in `folder`, without its pooling layer unless `pooler` asks for it.

    overrides: settings of the backbone's configuration; an unknown name is an error. dropout: replaces all the
    dropout rates that the configuration has, whatever it calls them.
    """
    from transformers import AutoConfig, AutoModel, AutoModelForTextEncoding

    _check_files(folder)
    try:
        config = AutoConfig.from_pretrained(folder, trust_remote_code=trust_remote_code)
    except Exception as error:
        raise ModelError(f"{folder}: config.json cannot be used ({first_line(error)}).") from error
    for name, value in (overrides or {}).items():
        if not hasattr(config, name):
            raise ModelError(f"{folder}: its configuration has no setting {name!r}.")
        setattr(config, name, value)
    rates = [name for name in DROPOUT_RATES if hasattr(config, name)]
    if dropout is not None and not rates:
        raise ModelError(f"{folder}: its configuration has no dropout rate that could be set to {dropout}.")
    for name in rates if dropout is not None else ():
        setattr(config, name, dropout)
    # of an encoder-decoder such as T5 only the encoder is wanted
    family: Any = AutoModelForTextEncoding if getattr(config, "is_encoder_decoder", False) else AutoModel
    arguments: dict[str, Any] = {"config": config, "dtype": torch.float32, "use_safetensors": True}
    if not pooler and _can_leave_out_pooler(config, family):
        arguments["add_pooling_layer"] = False
    try:
        with quiet():
            model, info = family.from_pretrained(
                folder, output_loading_info=True, trust_remote_code=trust_remote_code, **arguments
            )
    except Exception as error:
        raise ModelError(f"{folder}: its weights cannot be loaded ({first_line(error)}).") from error
    _check_weights(folder, info, pooler)
    module: nn.Module = model
    return module


def take_pooler(backbone: nn.Module, folder: Path) -> Dense:
    """The checkpoint's own pooling layer as the head: where published SimCSE models keep theirs."""
    pooler: Any = getattr(backbone, "pooler", None)
    if not isinstance(getattr(pooler, "dense", None), nn.Linear):
        raise ModelError(f"{folder}: has no pooling layer of the form Linear + tanh to take as the head.")
    linear = pooler.dense
    head = Dense(linear.in_features, linear.out_features)
    head.linear.load_state_dict(linear.state_dict())
    backbone.pooler = None  # type: ignore[assignment]
    return head


def longest_input(backbone: nn.Module, tokenizer: Any) -> int:
    """How many tokens the model can take: the lesser of the tokenizer's word and the number of positions."""
    config: Any = backbone.config
    positions = getattr(config, "max_position_embeddings", None) or getattr(config, "n_positions", None)
    limit = int(min(tokenizer.model_max_length, 1_000_000))
    if not positions or positions < 0:
        return limit
    positions -= trailing_padding(backbone)
    table = _position_table(backbone)
    if table is not None and table.padding_idx is not None:
        positions = table.num_embeddings - table.padding_idx - 1  # RoBERTa counts positions from there
    return min(limit, int(positions))


def trailing_padding(backbone: nn.Module) -> int:
    """How many padding tokens must follow even the longest sentence of a batch for vectors not to depend on it.

    MobileBERT looks at each token's neighbours, so the last token of a sentence sees whether padding follows:
    alone in a batch its vector is another one. One token of padding for all makes them equal, and is what the
    model was pretrained with. Where the padding token's embedding is zero, nothing is seen and none is needed.
    """
    config: Any = backbone.config
    if not getattr(config, "trigram_input", False):
        return 0
    embeddings: Any = backbone.get_input_embeddings()  # type: ignore[operator]
    return int(bool(embeddings.weight[config.pad_token_id].any()))


def hidden_layers(backbone: nn.Module) -> int:
    config: Any = backbone.config
    return int(config.num_hidden_layers)


@contextmanager
def quiet() -> Iterator[None]:
    """Without transformers' loading bars and reports: what matters in them is checked here and raised."""
    from transformers.utils import logging as messages

    logger = logging.getLogger("transformers")
    level = logger.level
    bars = messages.is_progress_bar_enabled()
    logger.setLevel(logging.ERROR)
    messages.disable_progress_bar()  # type: ignore[no-untyped-call]
    try:
        yield
    finally:
        logger.setLevel(level)
        if bars:
            messages.enable_progress_bar()  # type: ignore[no-untyped-call]


def check_model_folder(folder: Path) -> None:
    if (folder / "config.json").exists():
        return
    within = folder / "model"
    mend = f"; the model of this run is {within}" if (within / "config.json").exists() else ""
    raise ModelError(f"{folder}: is not a model folder (no config.json){mend}.")


def _check_files(folder: Path) -> None:
    check_model_folder(folder)
    if not any(folder.glob("*.safetensors")):
        pickled = next((path.name for path in folder.glob("*.bin")), None)
        if pickled:
            raise ModelError(f"{folder}: has {pickled} and no safetensors, {PICKLE_MEND}.")
        raise ModelError(f"{folder}: has no weights (model.safetensors).")


def _can_leave_out_pooler(config: Any, family: Any) -> bool:
    try:
        model_class = family._model_mapping[type(config)]
    except KeyError:  # remote code
        return False
    if isinstance(model_class, (list, tuple)):
        model_class = model_class[0]
    return "add_pooling_layer" in inspect.signature(model_class.__init__).parameters


def _check_weights(folder: Path, info: Mapping[str, Any], pooler: bool) -> None:
    missing = sorted(key for key in info["missing_keys"] if pooler or not key.startswith("pooler."))
    unexpected = sorted(key for key in info["unexpected_keys"] if not key.startswith(TASK_HEADS))
    mismatched = sorted(str(key[0] if isinstance(key, tuple) else key) for key in info["mismatched_keys"])
    for keys, what in ((missing, "is missing"), (unexpected, "is not expected"), (mismatched, "has another shape")):
        if keys:
            more = f" (and {len(keys) - 1} more)" if len(keys) > 1 else ""
            raise ModelError(f"{folder}: the weight {keys[0]!r} {what}{more}; the checkpoint does not fit its config.")


def _position_table(backbone: nn.Module) -> nn.Embedding | None:
    for name, module in backbone.named_modules():
        if name.endswith("position_embeddings") and isinstance(module, nn.Embedding):
            return module
    return None
