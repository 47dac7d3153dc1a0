"""The head that predicts masked tokens, for the auxiliary loss. It is for training only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from nearer.encoder.checkpoint_weights import read_weight, weight_files


@dataclass(frozen=True)
class Form:
    """How a family's checkpoints call the parts of a head, and what its configuration says of it.

    decoder: its own copy of the word embeddings, which many checkpoints leave out; activation: by its name, or the
    setting that names it, after a `$`; eps: of the layer norm, by the setting that has it; extra: further columns of
    the word embeddings.
    """

    dense: str
    norm: str
    bias: tuple[str, ...]
    decoder: str
    activation: str = "$hidden_act"
    eps: str | float = "layer_norm_eps"
    extra: str | None = None


FORMS = (
    # BERT, ERNIE, BigBird, MobileBERT (with further columns), FNet, MegatronBERT, SqueezeBERT, older DeBERTa …
    Form(
        "cls.predictions.transform.dense",
        "cls.predictions.transform.LayerNorm",
        ("cls.predictions.bias", "cls.predictions.decoder.bias"),
        "cls.predictions.decoder.weight",
        extra="cls.predictions.dense.weight",
    ),
    # RoBERTa, XLM-R, CamemBERT, MPNet, Longformer …
    Form(
        "lm_head.dense",
        "lm_head.layer_norm",
        ("lm_head.bias", "lm_head.decoder.bias"),
        "lm_head.decoder.weight",
        "gelu",
    ),
    # DistilBERT
    Form(
        "vocab_transform", "vocab_layer_norm", ("vocab_projector.bias",), "vocab_projector.weight", "$activation", 1e-12
    ),
    # ALBERT
    Form(
        "predictions.dense",
        "predictions.LayerNorm",
        ("predictions.bias", "predictions.decoder.bias"),
        "predictions.decoder.weight",
    ),
    # the generators of ELECTRA and ConvBERT
    Form(
        "generator_predictions.dense",
        "generator_predictions.LayerNorm",
        ("generator_lm_head.bias",),
        "generator_lm_head.weight",
        "gelu",
    ),
    # DeBERTa; its `mask_predictions` tell replaced tokens and are no such head
    Form(
        "lm_predictions.lm_head.dense",
        "lm_predictions.lm_head.LayerNorm",
        ("lm_predictions.lm_head.bias",),
        "lm_predictions.lm_head.decoder.weight",
    ),
    # ModernBERT, whose classifiers have `head` as well but no decoder
    Form("head.dense", "head.norm", ("decoder.bias",), "decoder.weight", "$classifier_activation", "norm_eps"),
)
# What the weights of any head over the vocabulary begin with, known to us or not
STARTS = (
    "cls.predictions.",
    "lm_head.",
    "vocab_",
    "predictions.",
    "generator_predictions.",
    "generator_lm_head.",
    "lm_predictions.",
    "lm_loss.",
    "pred_layer.",
    "decoder.",
)
# The original BERT's names of a norm's weights
OLD_NAMES = {"weight": "gamma", "bias": "beta"}


class LanguageHead(nn.Module):
    """Scores over the vocabulary, by the word embeddings that the backbone reads with."""

    def __init__(
        self, hidden: int, size: int, vocabulary: int, *, activation: nn.Module, eps: float, extra: int = 0
    ) -> None:
        """size: of what is compared with the words' embeddings, of which `extra` columns are the head's own."""
        super().__init__()
        self.dense = nn.Linear(hidden, size)
        self.activation = activation
        self.norm = nn.LayerNorm(size, eps=eps)
        self.bias = nn.Parameter(torch.zeros(vocabulary))
        self.extra = nn.Parameter(torch.zeros(extra, vocabulary)) if extra else None
        nn.init.normal_(self.dense.weight, std=0.02)
        nn.init.zeros_(self.dense.bias)

    def forward(self, states: Tensor, word_embeddings: Tensor) -> Tensor:
        """Logits (tokens, vocabulary) of states (tokens, hidden)."""
        words = word_embeddings.T
        if self.extra is not None:
            words = torch.cat([words, self.extra])
        scores: Tensor = self.norm(self.activation(self.dense(states))) @ words + self.bias
        return scores


def language_head(backbone: nn.Module, folder: Path | None) -> tuple[LanguageHead, str | None]:
    """The checkpoint's head if `folder` has one that can be used, else a fresh one and a remark that says so."""
    saved = _Saved(folder) if folder is not None else None
    for form in FORMS if saved is not None else ():
        assert saved is not None
        found = saved.parts(form)
        if found is None:
            continue
        head = _of_form(form, backbone, found)
        if isinstance(head, str):
            return _fresh(backbone), f"the checkpoint's head for masked tokens ({form.dense} …) {head}: {FRESH}"
        if (own := saved.tensor(form.decoder)) is not None and not _equals(own, _words(backbone)):
            told = f"has output embeddings of its own ({form.decoder}), which are not used here"
            return _fresh(backbone), f"the checkpoint's head for masked tokens {told}: {FRESH}"
        return head, None
    if saved is not None and saved.unknown:
        told = f"the checkpoint's head for masked tokens ({saved.unknown} …) has a form that is not known here"
        return _fresh(backbone), f"{told}: {FRESH}"
    return _fresh(backbone), f"the checkpoint has no head for masked language modelling: {FRESH}"


FRESH = "a fresh one is trained"


class _Saved:
    """The weights in a checkpoint's files that belong to a head."""

    def __init__(self, folder: Path) -> None:
        self.files = weight_files(folder)

    @property
    def unknown(self) -> str | None:
        """A weight of some head over the vocabulary, if there is any."""
        return next((name for name in sorted(self.files) if name.startswith(STARTS)), None)

    def tensor(self, name: str) -> Tensor | None:
        return read_weight(self.files[name], name) if name in self.files else None

    def parts(self, form: Form) -> dict[str, Tensor] | None:
        """By our names, those that there are; None unless the file has a head of this form."""
        spelt = {
            "dense.weight": (f"{form.dense}.weight",),
            "dense.bias": (f"{form.dense}.bias",),
            "norm.weight": (f"{form.norm}.weight", f"{form.norm}.{OLD_NAMES['weight']}"),
            "norm.bias": (f"{form.norm}.bias", f"{form.norm}.{OLD_NAMES['bias']}"),
            "bias": form.bias,
            "extra": () if form.extra is None else (form.extra,),
        }
        found = {
            ours: tensor
            for ours, spellings in spelt.items()
            for tensor in [next(filter(lambda each: each is not None, map(self.tensor, spellings)), None)]
            if tensor is not None
        }
        return found if {"dense.weight", "norm.weight", "bias"} <= found.keys() else None


def _of_form(form: Form, backbone: nn.Module, found: Mapping[str, Tensor]) -> LanguageHead | str:
    """The head, or what is wrong with it."""
    from transformers.activations import ACT2FN

    config: Any = backbone.config
    words = _words(backbone)
    size, hidden = found["dense.weight"].shape
    extra = len(found["extra"]) if "extra" in found else 0
    if hidden != _hidden(backbone) or size != words.shape[1] + extra or len(found["bias"]) != len(words):
        return f"scores {len(found['bias'])} words by {size} numbers and does not fit the backbone"
    name = getattr(config, form.activation[1:], None) if form.activation.startswith("$") else form.activation
    if name not in ACT2FN:
        return f"has an activation that is not known ({name})"
    eps = form.eps if isinstance(form.eps, float) else float(getattr(config, form.eps, 1e-12))
    head = LanguageHead(hidden, size, len(words), activation=ACT2FN[name], eps=eps, extra=extra)
    for layer, kind in ((head.dense, "dense"), (head.norm, "norm")):
        if f"{kind}.bias" not in found:
            layer.register_parameter("bias", None)
    head.load_state_dict(found)
    return head


def _fresh(backbone: nn.Module) -> LanguageHead:
    vocabulary, size = _words(backbone).shape
    eps = float(getattr(backbone.config, "layer_norm_eps", 1e-12))
    return LanguageHead(_hidden(backbone), size, vocabulary, activation=nn.GELU(), eps=eps)


def _words(backbone: nn.Module) -> Tensor:
    table: Any = backbone.get_input_embeddings()  # type: ignore[operator]
    weight: Tensor = table.weight
    return weight.detach()


def _hidden(backbone: nn.Module) -> int:
    config: Any = backbone.config
    return int(getattr(config, "hidden_size", None) or config.d_model)


def _equals(own: Tensor, words: Tensor) -> bool:
    return own.shape == words.shape and torch.equal(own, words.cpu().float())
