"""The folder layout of sentence-transformers, as data: what a folder says about its modules, and writing it.

Reading understands Transformer, Pooling, WeightedLayerPooling, StaticEmbedding, Router (one route of it), and behind
these Dense, LayerNorm, Normalize and Dropout in any order. Any other module is refused by name rather than left out.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import torch

from nearer.encoder.layout_files import (
    DenseFacts,
    LayerFacts,
    ModelFacts,
    ModuleFacts,
    NormFacts,
    PoolingFacts,
    RouterFacts,
    TransformerFacts,
    WeightedLayersFacts,
    read_facts,
    read_layer,
)
from nearer.encoder.parts import Dense, Norm, Projection, UnitLength
from nearer.encoder.pickles import PICKLE_MEND
from nearer.encoder.pooling import LAYER_PAIRS
from nearer.errors import ModelError, SettingError, first_line

Layer = TypeVar("Layer", bound=torch.nn.Module)

MODULES_FILE = "modules.json"
TRANSFORMER_FILE = "sentence_bert_config.json"
MODEL_FILE = "config_sentence_transformers.json"
ROUTER_FILE = "router_config.json"

# our pooling: their mode, and the key of the older spelling that every version understands
MODES = {
    "cls": ("cls", "pooling_mode_cls_token"),
    "max": ("max", "pooling_mode_max_tokens"),
    "mean": ("mean", "pooling_mode_mean_tokens"),
    "mean_sqrt_length": ("mean_sqrt_len_tokens", "pooling_mode_mean_sqrt_len_tokens"),
    "weighted_mean": ("weightedmean", "pooling_mode_weightedmean_tokens"),
    "last_token": ("lasttoken", "pooling_mode_lasttoken"),
}
# the prompt that goes with a route where the user names neither
ROUTE_PROMPTS = {"query": ("query",), "document": ("document", "passage", "corpus")}


class Module(NamedTuple):
    kind: str
    path: Path


@dataclass
class Layout:
    """What a sentence-transformers folder says.

    transformer: the folder of the first module, which is a table of static vectors if `static`. layer_weights: of
    the embedding layer and each block, where no pooling of ours has a name for them. routes: all that there are.
    compared_by: how vectors are to be compared, where it says so.
    """

    transformer: Path
    static: bool = False
    pooling: str | None = None
    layer_weights: list[float] | None = None
    max_length: int | None = None
    lowercase: bool = False
    pool_prompt: bool = True
    projections: list[Projection] = field(default_factory=list)
    normalize: bool = False
    truncate_dim: int | None = None
    prompts: dict[str, str] = field(default_factory=dict)
    default_prompt: str | None = None
    compared_by: str | None = None
    pooled_token: int | None = None
    route: str | None = None
    routes: tuple[str, ...] = ()


def read_layout(folder: Path, route: str | None = None) -> Layout:
    """route: of a Router; None takes its default one."""
    modules = _read_modules(folder, folder / MODULES_FILE)
    layout = Layout(transformer=folder)
    if modules and modules[0].kind in ("Router", "Asym"):
        modules = [*_read_route(layout, modules[0].path, route), *modules[1:]]
    elif route is not None:
        raise SettingError(f"route: {folder} has no Router, and so no route {route!r}.")
    kind, layout.transformer = modules[0] if modules else ("missing", folder)
    if kind not in ("Transformer", "StaticEmbedding"):
        raise ModelError(f"{folder}: its first module is {kind}, a Transformer or a StaticEmbedding is needed.")
    layout.static = kind == "StaticEmbedding"
    if layout.static:
        layout.pooling = "mean"
    else:
        _read_transformer(layout)
    _read_model_config(folder, layout, named=route)
    _read_steps(folder, layout, modules[1:])
    return layout


def _read_modules(folder: Path, path: Path) -> list[Module]:
    listed = read_facts(path, list[ModuleFacts])
    return [Module(_kind(module.type), folder / module.path) for module in listed]


def _kind(dotted: str) -> str:
    return dotted.rpartition(".")[2]


def _read_route(layout: Layout, folder: Path, route: str | None) -> list[Module]:
    """The modules of one route, or of the one that sentence-transformers' `encode` takes unasked."""
    path = folder / ROUTER_FILE
    if not path.exists():
        path = folder / "config.json"  # where older versions had it
    config = read_facts(path, RouterFacts)
    structure, parameters = config.structure, config.parameters
    layout.routes = tuple(structure)
    for spelt, target in (parameters.route_mappings or {}).items():
        if spelt in ("(None, None)", "(None, 'text')") and route is None:
            route = target
    default = "text" if "text" in structure else parameters.default_route
    if default is None and parameters.allow_empty_key:
        default = next(iter(structure))
    layout.route = default if route is None else route
    if layout.route in structure:
        names = structure[layout.route]
        if untold := [name for name in names if name not in config.types]:
            raise ModelError(f"{path}: does not say the type of the module {untold[0]!r}.")
        return [Module(_kind(config.types[name]), folder / name) for name in names]
    known = ", ".join(structure)
    if layout.route is None:
        raise ModelError(f"{folder}: its Router has no default route; name a route: {known}.", argument="route")
    raise SettingError(f"route: {layout.route!r} is none of {folder}'s: {known}.")


def _read_steps(folder: Path, layout: Layout, modules: list[Module]) -> None:
    """What follows the first module. A Normalize is a layer if anything comes after it, else a setting."""
    weights: list[float] | None = None
    for number, (kind, path) in enumerate(modules, start=1):
        if kind == "Pooling" and layout.pooling is None:
            layout.pooling = _read_pooling(path, layout, weights)
        elif kind == "TokenPooling" and layout.pooling is None:
            layout.pooling = "mask"  # of our own; nearer.json has its template
        elif kind == "WeightedLayerPooling" and layout.pooling is None and weights is None:
            weights = _read_layer_weights(path)
        elif kind == "Dense" and layout.pooling:
            layout.projections.append(_read_dense(path))
        elif kind == "LayerNorm" and layout.pooling:
            layout.projections.append(_read_norm(path))
        elif kind == "Normalize" and layout.pooling:
            read_layer(path, LayerFacts)
            layout.projections.append(UnitLength())
        elif kind != "Dropout":  # which does nothing at inference
            raise ModelError(f"{folder}: the module {kind}, number {number}, is not supported there.")
    if layout.pooling is None:
        raise ModelError(f"{folder}: {MODULES_FILE} has no Pooling module.")
    while layout.projections and isinstance(layout.projections[-1], UnitLength) and layout.truncate_dim is None:
        layout.projections.pop()
        layout.normalize = True


def _read_transformer(layout: Layout) -> None:
    path = layout.transformer / TRANSFORMER_FILE
    config = read_facts(path, TransformerFacts) if path.exists() else TransformerFacts()
    layout.max_length = config.max_seq_length
    layout.lowercase = bool(config.do_lower_case)


def _read_model_config(folder: Path, layout: Layout, *, named: str | None) -> None:
    """named: the route that was asked for, whose prompt is then the default."""
    path = folder / MODEL_FILE
    config = read_facts(path, ModelFacts) if path.exists() else ModelFacts()
    layout.prompts = {name: text or "" for name, text in (config.prompts or {}).items()}
    by_route = [name for name in ROUTE_PROMPTS.get(named or "", ()) if name in layout.prompts]
    default = by_route[0] if by_route else config.default_prompt_name
    layout.default_prompt = default if default in layout.prompts else None
    layout.truncate_dim = config.truncate_dim
    layout.compared_by = config.similarity_fn_name


def _read_pooling(path: Path, layout: Layout, weights: list[float] | None) -> str:
    config = read_facts(path / "config.json", PoolingFacts)
    layout.pool_prompt = config.include_prompt
    modes = config.pooling_mode
    if modes is None:
        names = [ours for ours, (_, key) in MODES.items() if getattr(config, key, False)]
    else:
        theirs = {mode: ours for ours, (mode, _) in MODES.items()}
        modes = [modes] if isinstance(modes, str) else modes
        unknown = [mode for mode in modes if mode not in theirs]
        if unknown:
            raise ModelError(f"{path}: the pooling mode {unknown[0]!r} is not known.")
        names = [theirs[mode] for mode in modes]
    if not names:
        raise ModelError(f"{path}: config.json names no pooling mode.")
    pair = _named_pair(weights) if weights is not None and names == ["mean"] else None
    if pair is None:
        layout.layer_weights = weights
    return pair or "+".join(names)


def _named_pair(weights: list[float]) -> str | None:
    """The pooling of ours that is a mean over two layers with these weights, if there is one."""
    return next((name for name in LAYER_PAIRS if weights == layer_weights(name, len(weights) - 1)), None)


def _read_layer_weights(path: Path) -> list[float]:
    config = read_facts(path / "config.json", WeightedLayersFacts)
    start, blocks = config.layer_start, config.num_hidden_layers
    saved = read_weights(path).get("layer_weights")
    if saved is None or saved.shape != (blocks + 1 - start,):
        found = "no layer_weights" if saved is None else f"layer_weights of shape {tuple(saved.shape)}"
        raise ModelError(f"{path}: has {found}, {blocks + 1 - start} weights are needed; save the model anew.")
    return [0.0] * start + saved.tolist()


def layer_weights(pooling: str, layers: int) -> list[float]:
    weights = [0.0] * (layers + 1)
    for layer in LAYER_PAIRS[pooling]:
        weights[layer] = 1.0
    return weights


def _read_dense(path: Path) -> Dense:
    config = read_layer(path, DenseFacts)
    if config.use_residual:
        raise ModelError(f"{path}: a Dense layer with a residual is not supported.")
    activation = _kind(config.activation_function)
    weights = _weights_of_size(path, "linear.weight", (config.out_features, config.in_features))
    dense = Dense(config.in_features, config.out_features, bias=config.bias, activation=activation)
    return _with_weights(dense, weights, path)


def _read_norm(path: Path) -> Norm:
    size = read_layer(path, NormFacts).dimension
    weights = _weights_of_size(path, "norm.weight", (size,))
    return _with_weights(Norm(size), weights, path)


def _weights_of_size(path: Path, name: str, size: tuple[int, ...]) -> dict[str, torch.Tensor]:
    """A layer's weights, before it is made: what its configuration says may be more than any memory holds."""
    weights = read_weights(path)
    found = tuple(weights[name].shape) if name in weights else None
    if found != size:
        has = "is missing" if found is None else f"has the shape {found}, config.json says {size}"
        raise ModelError(f"{path}: its weights do not fit ({name} {has}).")
    return weights


def _with_weights(layer: Layer, weights: dict[str, torch.Tensor], path: Path) -> Layer:
    try:
        layer.load_state_dict(weights)
    except RuntimeError as error:
        raise ModelError(f"{path}: its weights do not fit ({first_line(error)}).") from None
    return layer


def read_weights(path: Path) -> dict[str, torch.Tensor]:
    """The weights of one module."""
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    if not (path / "model.safetensors").exists():
        mend = f"; {PICKLE_MEND}" if any(path.glob("*.bin")) else ""
        raise ModelError(f"{path}: has no model.safetensors{mend}.")
    try:
        return load_file(path / "model.safetensors")
    except (SafetensorError, OSError) as error:
        raise ModelError(f"{path / 'model.safetensors'}: cannot be read ({first_line(error)}).") from None


def write_json(path: Path, value: Any) -> None:
    path.write_text(json.dumps(value, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
