"""Which weights of a checkpoint are the backbone's, and which stand beside it: every one is accounted for.

A checkpoint as the hub has it (`bert-base-uncased`) was saved with heads: the backbone's weights stand below its prefix
(`bert.`), the heads beside it. Trainers add heads of their own (`mlp.dense.`, `discriminator.`). What stands beside the
backbone is left out; what stands in it must fit to the last weight.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from nearer.errors import ModelError, first_line

# Constants that older checkpoints hold beside their weights; models make them themselves now.
CONSTANTS = ("position_ids", "token_type_ids", "inv_freq", "masked_bias")
# The names of classes for pretraining contain one of these. An encoder does not need the heads of such a class.
PRETRAINED_BY = ("ForPreTraining", "ForMaskedLM", "ForCausalLM", "LMHead", "ForConditionalGeneration")
# Where SimCSE's own trainer keeps its head.
TRAINED_HEAD = "mlp.dense"


def check_weights(folder: Path, model: nn.Module, info: Mapping[str, Any], *, pooler: bool) -> list[str]:
    """Raise unless the backbone has all its weights and no others; the names of the heads that were left out.

    info: what transformers says of the loading. pooler: whether the backbone's own pooling layer is wanted.
    """
    prefix = f"{getattr(model, 'base_model_prefix', '')}."
    inside = _names_of_parts(model)
    found_prefix = prefix != "." and any(name.startswith(prefix) for name in weight_files(folder))
    unexpected: list[str] = []
    heads: list[str] = []
    for key in sorted(info["unexpected_keys"]):
        name = key.removeprefix(prefix) if found_prefix else key
        part = name.split(".")[0]
        of_backbone = name != key if found_prefix else part in inside
        if part.startswith("pooler") or name.rpartition(".")[2] in CONSTANTS:
            continue
        (unexpected if of_backbone else heads).append(key)
    missing = sorted(key for key in info["missing_keys"] if pooler or not key.startswith("pooler"))
    mismatched = sorted(str(key[0] if isinstance(key, tuple) else key) for key in info["mismatched_keys"])
    for keys, what in ((missing, "is missing"), (unexpected, "is not expected"), (mismatched, "has another shape")):
        if keys:
            more = f" (and {len(keys) - 1} more)" if len(keys) > 1 else ""
            raise ModelError(f"{folder}: the weight {keys[0]!r} {what}{more}; the checkpoint does not fit its config.")
    return heads


def remark_on_heads(folder: Path, config: Any, heads: Iterable[str]) -> str | None:
    """What a user should know of the weights that were left out; nothing of heads that pretraining needed."""
    keys = set(heads)
    counts = Counter(key.split(".")[0] for key in keys)
    for name in _pretraining_heads(config):
        counts.pop(name, None)
    if not counts:
        return None
    listed = ", ".join(f"{name} ({count})" for name, count in sorted(counts.items()))
    mend = (
        f"; pooler_as_head (--pooler-as-head) takes {TRAINED_HEAD} as the head"
        if f"{TRAINED_HEAD}.weight" in keys
        else ""
    )
    return f"{folder}: weights beside the encoder are left out: {listed}{mend}."


def weight_files(folder: Path) -> dict[str, Path]:
    """By name of a weight, the safetensors file that holds it."""
    files: dict[str, Path] = {}
    for path in sorted(folder.glob("*.safetensors")):
        with opened_weights(path) as file:
            files |= dict.fromkeys(file.keys(), path)
    return files


def stored_shapes(folder: Path) -> dict[str, tuple[int, ...]]:
    """The shape of every weight, from the files' headers."""
    shapes: dict[str, tuple[int, ...]] = {}
    for path in sorted(folder.glob("*.safetensors")):
        with opened_weights(path) as file:
            shapes |= {name: tuple(file.get_slice(name).get_shape()) for name in file.keys()}  # noqa: SIM118 no dict
    return shapes


def stored_dtype(folder: Path) -> str:
    """What most of a model's weights are stored in, as safetensors calls it; empty where there are none."""
    counts: Counter[str] = Counter()
    for path in sorted(folder.glob("*.safetensors")):
        with opened_weights(path) as file:
            for name in file.keys():  # noqa: SIM118 no dict
                weight = file.get_slice(name)
                counts[weight.get_dtype()] += math.prod(weight.get_shape())
    return counts.most_common(1)[0][0] if counts else ""


@contextmanager
def opened_weights(path: Path) -> Iterator[Any]:
    """A safetensors file, of which only what is asked for is read."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="pt") as file:
            yield file
    except (SafetensorError, OSError) as error:
        raise ModelError(f"{path}: cannot be read ({first_line(error)}); get the file again.") from None


def read_weight(path: Path, name: str) -> Tensor:
    """One weight of a safetensors file, in float32."""
    with opened_weights(path) as file:
        tensor: Tensor = file.get_tensor(name)
        return tensor.float()


def _names_of_parts(model: nn.Module) -> set[str]:
    weights = (name for name, _ in model.named_parameters(recurse=False))
    return {*(name for name, _ in model.named_children()), *weights}


def _pretraining_heads(config: Any) -> set[str]:
    """The parts of the class that the checkpoint was saved by, if that was for pretraining."""
    import transformers

    names: set[str] = set()
    listed = getattr(config, "architectures", None)
    for architecture in filter(lambda name: isinstance(name, str), listed if isinstance(listed, list) else ()):
        known: Any = getattr(transformers, architecture, None)
        if known is None or not any(kind in architecture for kind in PRETRAINED_BY):
            continue
        with torch.device("meta"):
            names |= _names_of_parts(known(config))
    return names
