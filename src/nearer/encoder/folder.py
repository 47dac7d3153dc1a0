"""Saving an encoder to a folder and loading it back, strictly and in the layout of sentence-transformers.

`nearer.json` adds what that layout cannot hold: whether the first Dense layer is the head of training, the
text normalisation, and where the model comes from. A folder without it is any sentence-transformers model.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from torch import nn

from nearer.encoder.backbone import (
    check_model_folder,
    hidden_layers,
    load_backbone,
    longest_input,
    quiet,
    take_pooler,
)
from nearer.encoder.checkpoint_weights import stored_dtype
from nearer.encoder.layout import MODULES_FILE, Layout, read_layout, read_weights, write_json
from nearer.encoder.layout_writing import write_layout
from nearer.encoder.network import PADDING_TOKENS, SentenceNetwork
from nearer.encoder.parts import Dense, EncoderSettings
from nearer.encoder.pooling import WeightedLayers, needs_hidden_states
from nearer.encoder.sources import BUNDLED
from nearer.encoder.static import StaticBackbone, load_static, save_static
from nearer.encoder.template import Template, add_template, check_template
from nearer.encoder.tokenizer import load_tokenizer, save_tokenizer
from nearer.errors import ModelError, PoolingError, SettingError, tell
from nearer.model_notes import NOTES_FILE, NOTES_FORMAT, ModelNotes, read_notes
from nearer.storage.checksums import check_folder
from nearer.storage.whole import whole_folder
from nearer.versions import VERSION, library_versions

HALF = {"F16": "float16", "BF16": "bfloat16"}


def load_parts(
    folder: Path,
    *,
    pooling: str | None,
    max_length: int | None,
    text_normalisation: str | None,
    template: str | None = None,
    pooler_as_head: bool,
    trust_remote_code: bool,
    overrides: Mapping[str, Any] | None,
    dropout: float | None,
    route: str | None = None,
) -> dict[str, Any]:
    """The arguments of `Encoder` for what lies in `folder`."""
    check_folder(folder, "get the model again, from where it came or from its run")
    own = read_notes(folder)
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
    elif pooling is None and template is None:
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
        changes |= {"overrides": bool(overrides), "dropout": dropout is not None, "template": template is not None}
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
    _tell_of_other_similarity(folder, layout)
    longest = longest_input(backbone, tokenizer)
    if max_length is not None and max_length > longest:
        raise SettingError(f"max_length: {max_length} is more than the {longest} tokens that {folder} can take.")
    placed = Template(**own.template.model_dump()) if own and own.template else None
    if template is not None:
        placed = add_template(tokenizer, template, present=placed, name=str(folder))
        pooling = pooling or placed.pooling
    elif placed is not None:
        check_template(tokenizer, placed, str(folder))
    settings = EncoderSettings(
        pooling=pooling or _saved_pooling(folder, layout, own),
        max_length=max_length or min(layout.max_length or longest, longest),
        normalize=layout.normalize,
        text_normalisation=text_normalisation
        or (own and own.text_normalisation)
        or ("lowercase" if layout.lowercase else "none"),
        prompts=layout.prompts,
        default_prompt=layout.default_prompt,
        pool_prompt=layout.pool_prompt,
        truncate_dim=layout.truncate_dim,
        template=placed,
    )
    _check_sizes(folder, backbone, settings.pooling, [*([] if head is None else [head]), *layout.projections])
    return {
        "backbone": backbone,
        "tokenizer": tokenizer,
        "settings": settings,
        "head": head,
        "projections": layout.projections,
        "provenance": own.provenance.model_dump(exclude_unset=True) if own else {},
    }


def _check_sizes(folder: Path, backbone: nn.Module, pooling: str, layers: Sequence[nn.Module]) -> None:
    """That each layer takes vectors of the size that the one before it gives."""
    config: Any = backbone.config
    size = int(getattr(config, "hidden_size", None) or config.d_model) * len(pooling.split("+"))
    for layer in layers:
        if (wanted := getattr(layer, "size_in", size)) != size:
            raise ModelError(
                f"{folder}: its layer {type(layer).__name__} takes vectors of {wanted} numbers, {size} come from "
                f"what is before it (pooling {pooling}); the modules do not fit each other."
            )
        size = getattr(layer, "size_out", size)


def save_parts(
    encoder: SentenceNetwork, folder: Path, *, overwrite: bool, add: Callable[[Path], None] = lambda folder: None
) -> None:
    """Write the whole folder beside its path, then move it there: a reader never meets half a model.

    add: writes what else belongs into the folder.
    """
    with whole_folder(folder, overwrite=overwrite) as built:
        _write(encoder, built)
        add(built)


def _write(encoder: SentenceNetwork, folder: Path) -> None:
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
            save_tokenizer(encoder.tokenizer, folder, PADDING_TOKENS, templated=settings.template is not None)
    _write_layers(
        encoder,
        folder,
        backbone=backbone,
        weights=weights,
        without_pooler=getattr(backbone, "pooler", "none at all") is None,
    )
    write_json(
        folder / NOTES_FILE,
        {
            "format": NOTES_FORMAT,
            "nearer": VERSION,
            "pooling": settings.pooling,
            "head": keeps_head,
            "text_normalisation": settings.text_normalisation,
            "max_length": settings.max_length,
            **({} if settings.template is None else {"template": asdict(settings.template)}),
            "libraries": library_versions(),
            "provenance": encoder.provenance,
        },
    )


def write_around_graph(encoder: SentenceNetwork, folder: Path) -> None:
    """What sentence-transformers needs beside a graph that gives the last layer's states: all but the weights."""
    with quiet():
        config: Any = encoder.backbone.config
        config.save_pretrained(folder)
        save_tokenizer(encoder.tokenizer, folder, PADDING_TOKENS, templated=encoder.settings.template is not None)
    # arguments of a torch model (without_pooler) would be handed to the runtime
    _write_layers(encoder, folder, backbone=encoder.backbone, weights=None, without_pooler=False)


def _write_layers(
    encoder: SentenceNetwork, folder: Path, *, backbone: nn.Module, weights: list[float] | None, without_pooler: bool
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
        pooled_token=settings.pooled_token,
    )
    write_layout(
        folder,
        layout,
        width=encoder.width,
        layers=hidden_layers(backbone),
        without_pooler=without_pooler,
        versions={"sentence_transformers": "5.0.0", **library_versions()},
    )


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


def _tell_of_other_similarity(folder: Path, layout: Layout) -> None:
    if layout.compared_by not in (None, "cosine") and not layout.normalize:
        tell(
            f"{folder}: says that its vectors are compared by {layout.compared_by}; here they are compared by cosine, "
            "which leaves their lengths out and may find other sentences."
        )


def _saved_pooling(folder: Path, layout: Layout, own: ModelNotes | None) -> str:
    assert layout.pooling is not None
    pooling = (own and own.pooling) or layout.pooling
    if pooling != layout.pooling and (pooling, layout.pooling) != ("cls_before_head", "cls"):
        raise ModelError(
            f"{folder}: {NOTES_FILE} says pooling {pooling!r}, its Pooling module says {layout.pooling!r}."
        )
    return pooling


def _saved_head(folder: Path, layout: Layout, own: ModelNotes | None) -> Dense | None:
    if own is None or not own.head:
        return None
    if not layout.projections or not isinstance(layout.projections[0], Dense):
        raise ModelError(
            f"{folder}: {NOTES_FILE} says that the head is kept, but there is no Dense module after Pooling."
        )
    return layout.projections.pop(0)  # type: ignore[return-value]
