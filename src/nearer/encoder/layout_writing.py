"""Writing the folder layout of sentence-transformers, in the spelling that all its versions read."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import torch

from nearer.encoder import nearer_token_pooling
from nearer.encoder.layout import MODEL_FILE, MODES, MODULES_FILE, TRANSFORMER_FILE, Layout, layer_weights, write_json
from nearer.encoder.parts import Norm, Projection, UnitLength
from nearer.encoder.pooling import AT_TEMPLATE, LAYER_PAIRS

TYPES = "sentence_transformers.models."  # the spelling that every version understands
OWN_TYPES = "nearer_token_pooling."  # a file beside the model


def write_layout(
    folder: Path, layout: Layout, *, width: int, layers: int, without_pooler: bool, versions: dict[str, str]
) -> None:
    """Write everything but the backbone and the tokenizer. `width` is the size of a token's state."""
    from safetensors.torch import save_file

    assert layout.pooling is not None
    steps: list[tuple[str, dict[str, Any], dict[str, torch.Tensor]]] = []
    modes = "cls" if layout.pooling == "cls_before_head" else layout.pooling
    weights = layout.layer_weights
    if modes in LAYER_PAIRS:
        weights, modes = layer_weights(modes, layers), "mean"
    if weights is not None:
        shape = {"word_embedding_dimension": width, "layer_start": 0, "num_hidden_layers": layers}
        steps.append(("WeightedLayerPooling", shape, {"layer_weights": torch.tensor(weights)}))
    if modes in AT_TEMPLATE:
        steps.append(("TokenPooling", {"token": layout.pooled_token, "dimension": width}, {}))
        shutil.copy(Path(nearer_token_pooling.__file__), folder / f"{OWN_TYPES}py")
    elif not layout.static:
        pooling = _pooling_config(modes.split("+"), width)
        steps.append(("Pooling", {**pooling, "include_prompt": layout.pool_prompt}, {}))
    for projection in layout.projections:
        steps.append((*_describe(projection), projection.state_dict()))
    if layout.normalize:
        steps.append(("Normalize", {}, {}))

    first = "StaticEmbedding" if layout.static else "Transformer"
    modules = [{"idx": 0, "name": "0", "path": "", "type": TYPES + first}]
    for number, (kind, config, tensors) in enumerate(steps, start=1):
        path = folder / f"{number}_{kind}"
        path.mkdir()
        write_json(path / "config.json", config)
        if tensors:
            plain = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
            save_file(plain, path / "model.safetensors")
        modules.append(
            {
                "idx": number,
                "name": str(number),
                "path": path.name,
                "type": (OWN_TYPES if kind == "TokenPooling" else TYPES) + kind,
            }
        )
    write_json(folder / MODULES_FILE, modules)
    if not layout.static:
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
            **({} if layout.truncate_dim is None else {"truncate_dim": layout.truncate_dim}),
        },
    )


def _pooling_config(names: list[str], width: int) -> dict[str, Any]:
    if names == [name for name in MODES if name in names]:
        return {"word_embedding_dimension": width, **{key: ours in names for ours, (_, key) in MODES.items()}}
    # the older spelling knows one order only
    return {"embedding_dimension": width, "pooling_mode": [MODES[name][0] for name in names]}


def _describe(projection: Projection) -> tuple[str, dict[str, Any]]:
    if isinstance(projection, UnitLength):
        return "Normalize", {}
    if isinstance(projection, Norm):
        return "LayerNorm", {"dimension": projection.size_out}
    activation = type(projection.activation)
    return "Dense", {
        "in_features": projection.linear.in_features,
        "out_features": projection.size_out,
        "bias": projection.linear.bias is not None,
        "activation_function": f"{activation.__module__}.{activation.__name__}",
    }
