"""The folder layout of sentence-transformers, as data: what a folder says about its modules, and writing it.

Reading understands Transformer, Pooling, WeightedLayerPooling (as this project writes it), Dense, LayerNorm,
Dropout and Normalize. Any other module is refused by name rather than left out.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import torch

from nearer.encoder.pooling import LAYER_PAIRS
from nearer.encoder.projection import Dense, Norm, Projection
from nearer.errors import ModelError, first_line

Layer = TypeVar("Layer", bound=torch.nn.Module)

MODULES_FILE = "modules.json"
TRANSFORMER_FILE = "sentence_bert_config.json"
MODEL_FILE = "config_sentence_transformers.json"
TYPES = "sentence_transformers.models."  # the spelling that every version understands

# our pooling: their mode, and the key of the older spelling that every version understands
MODES = {
    "cls": ("cls", "pooling_mode_cls_token"),
    "max": ("max", "pooling_mode_max_tokens"),
    "mean": ("mean", "pooling_mode_mean_tokens"),
    "mean_sqrt_length": ("mean_sqrt_len_tokens", "pooling_mode_mean_sqrt_len_tokens"),
    "weighted_mean": ("weightedmean", "pooling_mode_weightedmean_tokens"),
    "last_token": ("lasttoken", "pooling_mode_lasttoken"),
}


@dataclass
class Layout:
    """What a sentence-transformers folder says."""

    transformer: Path
    pooling: str | None = None
    max_length: int | None = None
    lowercase: bool = False
    pool_prompt: bool = True
    projections: list[Projection] = field(default_factory=list)
    normalize: bool = False
    prompts: dict[str, str] = field(default_factory=dict)
    default_prompt: str | None = None


def read_layout(folder: Path) -> Layout:
    modules = read_json(folder / MODULES_FILE)
    kinds = [str(module["type"]).rpartition(".")[2] for module in modules]
    if not kinds or kinds[0] != "Transformer":
        raise ModelError(f"{folder}: its first module is {kinds[0] if kinds else 'missing'}, a Transformer is needed.")
    layout = Layout(transformer=folder / str(modules[0]["path"]))
    _read_transformer(layout)
    _read_prompts(folder, layout)
    layers: str | None = None
    for kind, module in zip(kinds[1:], modules[1:], strict=True):
        path = folder / str(module["path"])
        if kind == "Pooling" and layout.pooling is None:
            layout.pooling = _read_pooling(path, layout, layers)
        elif kind == "WeightedLayerPooling" and layout.pooling is None:
            layers = _read_layer_weights(path)
        elif kind == "Dense" and layout.pooling and not layout.normalize:
            layout.projections.append(_read_dense(path))
        elif kind == "LayerNorm" and layout.pooling and not layout.normalize:
            norm = Norm(int(read_json(path / "config.json")["dimension"]))
            layout.projections.append(_with_weights(norm, path))
        elif kind == "Normalize" and layout.pooling:
            layout.normalize = True
        elif kind != "Dropout":  # which does nothing at inference
            raise ModelError(f"{folder}: the module {kind} at place {module.get('idx', '?')} is not supported there.")
    if layout.pooling is None:
        raise ModelError(f"{folder}: {MODULES_FILE} has no Pooling module.")
    return layout


def _read_transformer(layout: Layout) -> None:
    path = layout.transformer / TRANSFORMER_FILE
    config = read_json(path) if path.exists() else {}
    layout.max_length = config.get("max_seq_length")
    layout.lowercase = bool(config.get("do_lower_case", False))


def _read_prompts(folder: Path, layout: Layout) -> None:
    path = folder / MODEL_FILE
    config = read_json(path) if path.exists() else {}
    layout.prompts = {name: text for name, text in (config.get("prompts") or {}).items() if text}
    default = config.get("default_prompt_name")
    layout.default_prompt = default if default in layout.prompts else None


def _read_pooling(path: Path, layout: Layout, layers: str | None) -> str:
    config = read_json(path / "config.json")
    layout.pool_prompt = bool(config.get("include_prompt", True))
    modes = config.get("pooling_mode")
    if modes is None:
        names = [ours for ours, (_, key) in MODES.items() if config.get(key)]
    else:
        theirs = {mode: ours for ours, (mode, _) in MODES.items()}
        modes = [modes] if isinstance(modes, str) else modes
        unknown = [mode for mode in modes if mode not in theirs]
        if unknown:
            raise ModelError(f"{path}: the pooling mode {unknown[0]!r} is not known.")
        names = [theirs[mode] for mode in modes]
    if not names:
        raise ModelError(f"{path}: config.json names no pooling mode.")
    if layers is None:
        return "+".join(names)
    if names != ["mean"]:
        raise ModelError(f"{path}: {'+'.join(names)} over averaged layers is not supported, only mean.")
    return layers


def _read_layer_weights(path: Path) -> str:
    from safetensors.torch import load_file

    config = read_json(path / "config.json")
    count, start = int(config["num_hidden_layers"]), int(config["layer_start"])
    weights = [0.0] * start + load_file(_weights_file(path))["layer_weights"].tolist()
    for name in LAYER_PAIRS:
        if weights == layer_weights(name, count):
            return name
    raise ModelError(f"{path}: only an even mean of two layers ({', '.join(LAYER_PAIRS)}) is supported.")


def layer_weights(pooling: str, layers: int) -> list[float]:
    weights = [0.0] * (layers + 1)
    for place in LAYER_PAIRS[pooling]:
        weights[place] = 1.0
    return weights


def _read_dense(path: Path) -> Dense:
    config = read_json(path / "config.json")
    if config.get("use_residual") or config.get("module_input_name", "sentence_embedding") != "sentence_embedding":
        raise ModelError(f"{path}: a Dense layer with a residual or on token states is not supported.")
    activation = str(config.get("activation_function", "Tanh")).rpartition(".")[2]
    dense = Dense(config["in_features"], config["out_features"], bias=config.get("bias", True), activation=activation)
    return _with_weights(dense, path)


def _with_weights(layer: Layer, path: Path) -> Layer:
    from safetensors.torch import load_file

    try:
        layer.load_state_dict(load_file(_weights_file(path)))
    except RuntimeError as error:
        raise ModelError(f"{path}: its weights do not fit ({first_line(error)}).") from None
    return layer


def _weights_file(path: Path) -> Path:
    if not (path / "model.safetensors").exists():
        pickled = " (pickled weights are not read: convert them)" if any(path.glob("*.bin")) else ""
        raise ModelError(f"{path}: has no model.safetensors{pickled}.")
    return path / "model.safetensors"


def write_layout(
    folder: Path, layout: Layout, *, width: int, layers: int, without_pooler: bool, versions: dict[str, str]
) -> None:
    """Write everything but the backbone and the tokenizer. `width` is the size of a token's state."""
    from safetensors.torch import save_file

    assert layout.pooling is not None
    steps: list[tuple[str, dict[str, Any], dict[str, torch.Tensor]]] = []
    modes = "cls" if layout.pooling == "cls_before_head" else layout.pooling
    if modes in LAYER_PAIRS:
        shape = {"word_embedding_dimension": width, "layer_start": 0, "num_hidden_layers": layers}
        steps.append(("WeightedLayerPooling", shape, {"layer_weights": torch.tensor(layer_weights(modes, layers))}))
        modes = "mean"
    steps.append(("Pooling", {**_pooling_config(modes.split("+"), width), "include_prompt": layout.pool_prompt}, {}))
    for projection in layout.projections:
        steps.append((*_describe(projection), projection.state_dict()))
    if layout.normalize:
        steps.append(("Normalize", {}, {}))

    modules = [{"idx": 0, "name": "0", "path": "", "type": TYPES + "Transformer"}]
    for place, (kind, config, weights) in enumerate(steps, start=1):
        path = folder / f"{place}_{kind}"
        path.mkdir()
        write_json(path / "config.json", config)
        if weights:
            plain = {name: tensor.detach().cpu().contiguous() for name, tensor in weights.items()}
            save_file(plain, path / "model.safetensors")
        modules.append({"idx": place, "name": str(place), "path": path.name, "type": TYPES + kind})
    write_json(folder / MODULES_FILE, modules)
    transformer: dict[str, Any] = {"max_seq_length": layout.max_length, "do_lower_case": layout.lowercase}
    if without_pooler:
        transformer["model_args"] = {"add_pooling_layer": False}  # else they would draw a random, unused one
    write_json(folder / TRANSFORMER_FILE, transformer)
    write_json(
        folder / MODEL_FILE,
        {
            "__version__": versions,
            "model_type": "SentenceTransformer",
            "prompts": layout.prompts,
            "default_prompt_name": layout.default_prompt,
            "similarity_fn_name": "cosine",
        },
    )


def _pooling_config(names: list[str], width: int) -> dict[str, Any]:
    if names == [name for name in MODES if name in names]:
        return {"word_embedding_dimension": width, **{key: ours in names for ours, (_, key) in MODES.items()}}
    # the older spelling knows one order only
    return {"embedding_dimension": width, "pooling_mode": [MODES[name][0] for name in names]}


def _describe(projection: Projection) -> tuple[str, dict[str, Any]]:
    if isinstance(projection, Norm):
        return "LayerNorm", {"dimension": projection.size_out}
    activation = type(projection.activation)
    return "Dense", {
        "in_features": projection.linear.in_features,
        "out_features": projection.size_out,
        "bias": projection.linear.bias is not None,
        "activation_function": f"{activation.__module__}.{activation.__name__}",
    }


def read_json(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ModelError(f"{path}: is missing.") from None
    except (ValueError, OSError) as error:
        raise ModelError(f"{path}: cannot be read ({first_line(error)}).") from None


def write_json(path: Path, value: Any) -> None:
    path.write_text(json.dumps(value, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
