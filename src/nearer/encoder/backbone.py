"""Loading a transformers encoder strictly: safetensors only, float32, every weight accounted for.

A number in `config.json` decides how many layers are made and how large they are, before any weight is read. One that
is wrong by a typing error, or meant to do harm, would take hours or all memory; so the weights say what can be true.
"""

from __future__ import annotations

import inspect
import logging
import math
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import nn

from nearer.encoder.checkpoint_weights import (
    TRAINED_HEAD,
    check_weights,
    read_weight,
    remark_on_heads,
    stored_shapes,
    weight_files,
)
from nearer.encoder.parts import Dense
from nearer.encoder.pickles import PICKLE_MEND
from nearer.errors import ModelError, first_line, tell
from nearer.typed_files import read_json

# Where configurations of different families keep their dropout rates. Llama, Qwen, Gemma, Mistral and EuroBERT have
# that of attention alone, which is enough to make two passes of a sentence differ.
DROPOUT_RATES = (
    "hidden_dropout_prob",
    "attention_probs_dropout_prob",
    "dropout",
    "attention_dropout",
    "dropout_rate",
    "embedding_dropout",
    "mlp_dropout",
    "hidden_dropout",
    "activation_dropout",
    "residual_dropout",
    "resid_dropout",
    "embed_dropout",
    "resid_pdrop",
    "embd_pdrop",
    "emb_pdrop",
    "attn_pdrop",
)


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
    from transformers import AutoConfig

    check_weight_files(folder)
    suspicious = check_numbers(folder)
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
    family = _family(folder, config)
    arguments: dict[str, Any] = {"config": config, "dtype": torch.float32, "use_safetensors": True}
    if not pooler and _can_leave_out_pooler(config, family):
        arguments["add_pooling_layer"] = False
    if suspicious:
        made = {name: value for name, value in arguments.items() if name == "add_pooling_layer"}
        check_size(folder, config, family, trust_remote_code=trust_remote_code, **made)
    try:
        with quiet():
            model, info = family.from_pretrained(
                folder, output_loading_info=True, trust_remote_code=trust_remote_code, **arguments
            )
    except Exception as error:
        raise ModelError(f"{folder}: its weights cannot be loaded ({first_line(error)}).") from error
    heads = check_weights(folder, model, info, pooler=pooler)
    if pooler:  # `take_pooler` uses this one
        heads = [name for name in heads if not name.startswith(f"{TRAINED_HEAD}.")]
    if (remark := remark_on_heads(folder, config, heads)) is not None:
        tell(remark)
    module: nn.Module = model
    return module


def take_pooler(backbone: nn.Module, folder: Path) -> Dense:
    """The head that a published SimCSE model keeps: as its trainer saved it, or as the checkpoint's pooling layer."""
    files = weight_files(folder)
    trained = {name: f"{TRAINED_HEAD}.{name}" for name in ("weight", "bias")}
    pooler: Any = getattr(backbone, "pooler", None)
    if all(name in files for name in trained.values()):
        weights = {ours: read_weight(files[name], name) for ours, name in trained.items()}
    elif isinstance(getattr(pooler, "dense", None), nn.Linear):
        weights = pooler.dense.state_dict()
    else:
        raise ModelError(f"{folder}: has no pooling layer of the form Linear + tanh to take as the head.")
    size_out, size_in = weights["weight"].shape
    head = Dense(size_in, size_out)
    head.linear.load_state_dict(weights)
    if pooler is not None:
        backbone.pooler = None  # type: ignore[assignment]
    return head


def longest_input(backbone: nn.Module, tokenizer: Any) -> int:
    """How many tokens the model can take: the lesser of the tokenizer's word and the number of positions."""
    config: Any = backbone.config
    positions = getattr(config, "max_position_embeddings", None) or getattr(config, "n_positions", None)
    limit = int(min(tokenizer.model_max_length, 1_000_000))
    if not isinstance(positions, int) or positions <= 0:
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


def block_list(backbone: nn.Module) -> nn.ModuleList | None:
    """The backbone's blocks: its largest list of modules of one class; None where there is none."""
    lists = [
        module
        for module in backbone.modules()
        if isinstance(module, nn.ModuleList) and len({type(block) for block in module}) == 1
    ]
    return max(lists, key=lambda blocks: sum(weight.numel() for weight in blocks.parameters()), default=None)


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


def check_weight_files(folder: Path) -> None:
    check_model_folder(folder)
    if not any(folder.glob("*.safetensors")):
        pickled = next((path.name for path in folder.glob("*.bin")), None)
        if pickled:
            raise ModelError(f"{folder}: has {pickled} and no safetensors, {PICKLE_MEND}.", argument="allow_pickle")
        if (folder / "nearer_onnx.json").exists():
            raise ModelError(f"{folder}: is an ONNX export; name the model that it was made of.")
        raise ModelError(f"{folder}: has no weights (model.safetensors).")


def _family(folder: Path, config: Any) -> Any:
    """The class of transformers that loads the encoder: of an encoder-decoder such as T5 the encoder alone."""
    from transformers import AutoModel, AutoModelForTextEncoding

    # a saved encoder of T5's no longer says that it had a decoder: its kind alone does
    if type(config) in AutoModelForTextEncoding._model_mapping:
        return AutoModelForTextEncoding
    if getattr(config, "is_encoder_decoder", False):
        raise ModelError(
            f"{folder}: {config.model_type} is an encoder-decoder, and transformers has no class for its encoder "
            "alone; of such models t5, mt5 and umt5 can be used."
        )
    return AutoModel


def _can_leave_out_pooler(config: Any, family: Any) -> bool:
    try:
        model_class = family._model_mapping[type(config)]
    except KeyError:  # remote code
        return False
    if isinstance(model_class, (list, tuple)):
        model_class = model_class[0]
    return "add_pooling_layer" in inspect.signature(model_class.__init__).parameters


def _position_table(backbone: nn.Module) -> nn.Embedding | None:
    for name, module in backbone.named_modules():
        if name.endswith("position_embeddings") and isinstance(module, nn.Embedding):
            return module
    return None


# layers that share their weights (ALBERT) have fewer tensors than layers; no published model has a thousand
FEW_LAYERS = 1_000
COUNTS = re.compile(r"(layers?|blocks|depths?|stages|experts|heads|groups|group_num|repeats)$")
# what can be larger than the weights without harm: constants that a model makes for itself (positions, masks)
FREE_NUMBERS = 50_000_000
SMALL = 2**16


def check_numbers(folder: Path) -> bool:
    """Refuse more layers than there are weights for, in what `config.json` says before anything is made of it.

    Returns whether a number is larger than any dimension of the weights, so that `check_size` is worth its time.
    """
    shapes = stored_shapes(folder)
    most = max(FEW_LAYERS, len(shapes))
    largest = max([SMALL, *(size for shape in shapes.values() for size in shape)])
    suspicious = False
    for name, number in _numbers(read_json(folder / "config.json", dict[str, Any], error=ModelError)):
        if number > most and COUNTS.search(name):
            raise ModelError(
                f"{folder / 'config.json'}: says {name}: {number:,}, its weights are {len(shapes):,} tensors, "
                f"enough for {most:,} at most; get the model again, or mend the number."
            )
        suspicious = suspicious or number > largest
    return suspicious


def check_size(folder: Path, config: Any, family: Any, **options: Any) -> None:
    """Refuse a model that would be many times larger than its weights: made without memory, and counted."""
    try:
        with torch.device("meta"):
            model = family.from_config(config, **options)
    except Exception as error:  # transformers checks configurations in many ways
        raise ModelError(f"{folder}: config.json cannot be used ({first_line(error)}).") from error
    wanted = sum(tensor.numel() for tensor in (*model.parameters(), *model.buffers()))
    stored = sum(math.prod(shape) for shape in stored_shapes(folder).values())
    if wanted > 2 * stored + FREE_NUMBERS:
        raise ModelError(
            f"{folder / 'config.json'}: describes a model of {wanted:,} numbers, its weights have {stored:,}; "
            "get the model again, or mend the sizes in it."
        )


def _numbers(value: Any, name: str = "") -> Iterator[tuple[str, float]]:
    """All numbers of a configuration, each with the name of its setting."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _numbers(inner, str(key))
    elif isinstance(value, list):
        for inner in value:
            yield from _numbers(inner, name)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield name, value
