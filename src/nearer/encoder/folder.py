"""Saving an encoder to a folder and loading it back, strictly and in the layout of sentence-transformers.

`nearer.json` adds what that layout has no place for: whether the first Dense layer is the head of training, the
text normalisation, and where the model comes from. A folder without it is any sentence-transformers model.
"""

from __future__ import annotations

import json
import math
import tempfile
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torch import nn

import nearer
from nearer.encoder.backbone import (
    check_model_folder,
    hidden_layers,
    load_backbone,
    longest_input,
    quiet,
    take_pooler,
)
from nearer.encoder.layer_mean import WeightedLayers
from nearer.encoder.layout import MODULES_FILE, Layout, read_json, read_layout, read_weights, write_json
from nearer.encoder.layout_writing import write_layout
from nearer.encoder.pooling import needs_hidden_states
from nearer.encoder.projection import Dense
from nearer.encoder.settings import EncoderSettings
from nearer.encoder.sources import BUNDLED
from nearer.encoder.static import StaticBackbone, load_static, save_static
from nearer.encoder.tokenizer import load_tokenizer
from nearer.errors import ModelError, PoolingError, SettingError, first_line, tell
from nearer.versions import library_versions

if TYPE_CHECKING:
    from nearer.encoder.encoder import Encoder

# The special tokens that can pad, the first that a tokenizer has.
PADDING_TOKENS = ("pad", "eos", "sep", "bos", "cls", "unk")
HALF = {"F16": "float16", "BF16": "bfloat16"}
OWN_FILE = "nearer.json"
OWN_FORMAT = 1


def load_parts(
    folder: Path,
    *,
    pooling: str | None,
    max_length: int | None,
    text_normalisation: str | None,
    pooler_as_head: bool,
    trust_remote_code: bool,
    overrides: Mapping[str, Any] | None,
    dropout: float | None,
    route: str | None = None,
) -> dict[str, Any]:
    """The arguments of `Encoder` for what lies in `folder`."""
    own = _read_own(folder)
    if (folder / MODULES_FILE).exists():
        layout = read_layout(folder, route)
        if route is None and layout.route is not None:
            others = ", ".join(name for name in layout.routes if name != layout.route)
            tell(
                f"{folder}: has a Router; its route {layout.route!r} is used (the others by route: {others}).",
                argument="route",
            )
    elif route is not None:
        raise SettingError(f"route: {folder} has no Router, and so no route {route!r}.")
    elif pooling is None:
        check_model_folder(folder)
        raise PoolingError(
            f"{folder}: a plain checkpoint, which does not say how its vectors are pooled; "
            "name the pooling: cls, cls_before_head, mean, first_last_mean …",
            argument="pooling",
        )
    else:
        layout = Layout(transformer=folder)
    backbone: nn.Module
    if layout.static:
        changes = {"pooling": pooling not in (None, "mean"), "pooler_as_head": pooler_as_head}
        changes |= {"overrides": bool(overrides), "dropout": dropout is not None}
        for setting in (name for name, given in changes.items() if given):
            raise SettingError(f"{setting}: {folder} has static embeddings, a mean over tokens without a network.")
        backbone, tokenizer = load_static(layout.transformer, read_weights(layout.transformer))
    else:
        backbone = load_backbone(
            layout.transformer,
            trust_remote_code=trust_remote_code,
            overrides=overrides,
            dropout=dropout,
            pooler=pooler_as_head,
        )
        tokenizer = load_tokenizer(layout.transformer, trust_remote_code=trust_remote_code)
    head = take_pooler(backbone, folder) if pooler_as_head else _saved_head(folder, layout, own)
    if layout.layer_weights is not None and pooling is None:
        backbone = _with_layer_weights(backbone, layout, folder)
    _tell_of_half_precision(layout.transformer)
    longest = longest_input(backbone, tokenizer)
    if max_length is not None and max_length > longest:
        raise SettingError(f"max_length: {max_length} is more than the {longest} tokens that {folder} can take.")
    settings = EncoderSettings(
        pooling=pooling or _saved_pooling(folder, layout, own),
        max_length=max_length or min(layout.max_length or longest, longest),
        normalize=layout.normalize,
        text_normalisation=text_normalisation
        or own.get("text_normalisation", "lowercase" if layout.lowercase else "none"),
        prompts=layout.prompts,
        default_prompt=layout.default_prompt,
        pool_prompt=layout.pool_prompt,
        truncate_dim=layout.truncate_dim,
    )
    return {
        "backbone": backbone,
        "tokenizer": tokenizer,
        "settings": settings,
        "head": head,
        "projections": layout.projections,
        "provenance": own.get("provenance", {}),
    }


def save_parts(
    encoder: Encoder, folder: Path, *, overwrite: bool, add: Callable[[Path], None] = lambda folder: None
) -> None:
    """Write the whole folder beside its place, then move it there: a reader never meets half a model.

    add: writes what else belongs into the folder.
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())) and not overwrite:
        raise ModelError(f"{folder}: is there already; choose another folder or ask for overwriting.")
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent, prefix=f".{folder.name}-") as temporary:
            built = Path(temporary) / "model"
            built.mkdir()
            _write(encoder, built)
            add(built)
            if folder.exists():
                folder.rename(Path(temporary) / "replaced")
            built.rename(folder)
    except OSError as error:
        raise ModelError(f"{folder}: cannot be written ({error.strerror or first_line(error)}).") from error


def _write(encoder: Encoder, folder: Path) -> None:
    settings = encoder.settings
    keeps_head = encoder.head is not None and encoder.keeps_head
    backbone: Any = encoder.backbone
    weights = None
    if isinstance(backbone, WeightedLayers):
        weights, backbone = backbone.layer_weights.tolist(), backbone.backbone
    if isinstance(backbone, StaticBackbone):
        save_static(backbone, encoder.tokenizer, folder, max_length=settings.max_length)
    else:
        layered = weights is not None or needs_hidden_states(settings.pooling)
        with quiet():
            before = getattr(backbone.config, "output_hidden_states", False)
            backbone.config.output_hidden_states = layered  # sentence-transformers hands layers on only if this says so
            backbone.save_pretrained(folder)
            backbone.config.output_hidden_states = before
            _save_tokenizer(encoder, folder)
    _write_layers(
        encoder,
        folder,
        backbone=backbone,
        weights=weights,
        without_pooler=getattr(backbone, "pooler", "none at all") is None,
    )
    write_json(
        folder / OWN_FILE,
        {
            "format": OWN_FORMAT,
            "nearer": nearer.__version__,
            "pooling": settings.pooling,
            "head": keeps_head,
            "text_normalisation": settings.text_normalisation,
            "max_length": settings.max_length,
            "libraries": library_versions(),
            "provenance": encoder.provenance,
        },
    )


def write_around_graph(encoder: Encoder, folder: Path) -> None:
    """What sentence-transformers needs beside a graph that gives the last layer's states: all but the weights."""
    with quiet():
        config: Any = encoder.backbone.config
        config.save_pretrained(folder)
        _save_tokenizer(encoder, folder)
    # arguments of a torch model (without_pooler) would be handed to the runtime
    _write_layers(encoder, folder, backbone=encoder.backbone, weights=None, without_pooler=False)


def _write_layers(
    encoder: Encoder, folder: Path, *, backbone: nn.Module, weights: list[float] | None, without_pooler: bool
) -> None:
    """What comes after the backbone, with the settings. weights: of its layers, where a mean over them is pooled."""
    settings = encoder.settings
    keeps_head = encoder.head is not None and encoder.keeps_head
    layout = Layout(
        transformer=folder,
        static=isinstance(backbone, StaticBackbone),
        pooling=settings.pooling,
        layer_weights=weights,
        max_length=settings.max_length,
        lowercase=settings.text_normalisation == "lowercase",
        pool_prompt=settings.pool_prompt,
        projections=[*([encoder.head] if encoder.head is not None and keeps_head else []), *encoder.projections],
        normalize=settings.normalize,
        truncate_dim=settings.truncate_dim,
        prompts=settings.prompts,
        default_prompt=settings.default_prompt,
    )
    write_layout(
        folder,
        layout,
        width=encoder.width,
        layers=hidden_layers(backbone),
        without_pooler=without_pooler,
        versions={"sentence_transformers": "5.0.0", **library_versions()},
    )


def _save_tokenizer(encoder: Encoder, folder: Path) -> None:
    """With the padding token that is used here: a tokenizer without one leaves sentence-transformers unable to pad.

    The backbone's configuration stays as it is: its padding token's embedding learns nothing in training.
    """
    tokenizer = encoder.tokenizer
    if tokenizer.pad_token_id is not None:
        tokenizer.save_pretrained(folder)
        return
    stand_in = next((token for name in PADDING_TOKENS if (token := getattr(tokenizer, f"{name}_token", None))), None)
    try:
        tokenizer.pad_token = stand_in
        tokenizer.save_pretrained(folder)
    finally:
        tokenizer.pad_token = None


def _with_layer_weights(backbone: nn.Module, layout: Layout, folder: Path) -> nn.Module:
    config: Any = backbone.config
    assert layout.layer_weights is not None
    if not getattr(config, "output_hidden_states", False):
        tell(
            f"{folder}: its WeightedLayerPooling has no effect, as in sentence-transformers: config.json does not say "
            "output_hidden_states: true."
        )
        return backbone
    given, wanted = len(layout.layer_weights), hidden_layers(backbone) + 1
    if given != wanted:
        raise ModelError(f"{folder}: its WeightedLayerPooling has weights for {given} layers, the model has {wanted}.")
    return WeightedLayers(backbone, layout.layer_weights)


def _tell_of_half_precision(folder: Path) -> None:
    """Weights are computed with in float32 whatever they are stored in; other libraries compute in what is stored."""
    stored = stored_dtype(folder)
    if stored in HALF and folder.parent != BUNDLED:  # which was trained in float32 and is stored so for its size
        tell(
            f"{folder}: its weights are {HALF[stored]}; they are computed with in float32, and saved so "
            "(precision bf16 computes in bfloat16)."
        )


def stored_dtype(folder: Path) -> str:
    """What most of a model's weights are stored in, as safetensors calls it; empty where there are none."""
    counts: Counter[str] = Counter()
    for path in folder.glob("*.safetensors"):
        with open(path, "rb") as file:
            size = int.from_bytes(file.read(8), "little")
            described = json.loads(file.read(size))
        for name, tensor in described.items():
            if name != "__metadata__":
                counts[tensor["dtype"]] += math.prod(tensor["shape"])
    return counts.most_common(1)[0][0] if counts else ""


def _read_own(folder: Path) -> dict[str, Any]:
    path = folder / OWN_FILE
    if not path.exists():
        return {}
    own: dict[str, Any] = read_json(path)
    if own.get("format") != OWN_FORMAT:
        raise ModelError(f"{path}: has format {own.get('format')!r}, this version reads {OWN_FORMAT}; update nearer.")
    return own


def _saved_pooling(folder: Path, layout: Layout, own: Mapping[str, Any]) -> str:
    assert layout.pooling is not None
    pooling = str(own.get("pooling", layout.pooling))
    if pooling != layout.pooling and (pooling, layout.pooling) != ("cls_before_head", "cls"):
        raise ModelError(f"{folder}: {OWN_FILE} says pooling {pooling!r}, its Pooling module says {layout.pooling!r}.")
    return pooling


def _saved_head(folder: Path, layout: Layout, own: Mapping[str, Any]) -> Dense | None:
    if not own.get("head"):
        return None
    if not layout.projections or not isinstance(layout.projections[0], Dense):
        raise ModelError(
            f"{folder}: {OWN_FILE} says that the head is kept, but there is no Dense module after Pooling."
        )
    return layout.projections.pop(0)  # type: ignore[return-value]
