"""The network of an encoder: a transformers backbone, a pooling, a head that may be for training only, projections.

What trains and what computes knows a `SentenceNetwork`; `Encoder` is one that users load, save and encode with.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import torch
from torch import Tensor, nn

from nearer.encoder.backbone import trailing_padding
from nearer.encoder.batching import CutCounter
from nearer.encoder.parts import Dense, EncoderSettings, Projection, new_head
from nearer.encoder.pooling import needs_hidden_states, pool
from nearer.encoder.precision import LoweredBackbones, check_precision
from nearer.encoder.static import StaticBackbone
from nearer.errors import ModelError, first_line
from nearer.text.tokenise import tokenise

# Tokens that pad where a tokenizer has no padding token, the best first
PADDING_TOKENS = ("pad", "eos", "sep", "bos", "cls", "unk")
# These count positions from behind the padding token's id
OFFSET_FAMILIES = ("roberta", "xlm-roberta", "camembert")
# What padding may change, as a share of the largest coordinate; rounding stays a hundred times below.
PADDING_TOLERANCE = 1e-3
PROBE = "a short sentence"


class SentenceNetwork(nn.Module):
    """Maps token ids to vectors. In training mode the head, if there is one, is always applied; at inference the
    pooling decides (`cls_before_head` leaves it out).

    precision: what encoding computes in unless told otherwise: float32, bf16, or int8 on the CPU.
    """

    precision = "float32"
    _lowered: LoweredBackbones

    def __init__(
        self,
        backbone: nn.Module,
        tokenizer: Any,
        settings: EncoderSettings,
        *,
        head: Dense | None = None,
        projections: Sequence[Projection] = (),
        provenance: Mapping[str, Any] | None = None,
        name: str = "",
        source: Path | None = None,
    ) -> None:
        super().__init__()
        self.backbone = backbone
        self.tokenizer = tokenizer
        self.settings = settings
        self.head = head
        self.projections = nn.ModuleList(projections)
        self.provenance = dict(provenance or {})
        self.name = name
        self.source = source
        self.cut_counter = CutCounter()
        self._lowered = LoweredBackbones()

    def add_head(self, generator: torch.Generator | None = None) -> None:
        """Put SimCSE's freshly drawn head behind the pooling."""
        self.head = new_head(self._pooled_size, generator).to(self.device)

    def forward(
        self,
        ids: Tensor,
        mask: Tensor,
        pooled_mask: Tensor | None = None,
        *,
        pooled: Tensor | None = None,
        positions: Tensor | None = None,
        kept_features: Tensor | None = None,
        kept_tokens: Tensor | None = None,
    ) -> Tensor:
        """Vectors (batch, dimension) of token ids (batch, tokens); `pooled_mask` marks the tokens that are pooled.

        pooled: (batch,) the index of the one token that becomes a sentence's vector, whatever the model's pooling.
        positions: (batch, tokens) of the tokens; None: as they stand. kept_features (batch, width) and kept_tokens
        (batch, tokens): what stays of the embedded tokens; the rest is 0.
        """
        if kept_features is not None or kept_tokens is not None:
            features = None if kept_features is None else kept_features[:, None]
            tokens = None if kept_tokens is None else kept_tokens[..., None]
            with cut_embeddings(self.backbone, features, tokens):
                return self.forward(ids, mask, pooled_mask, pooled=pooled, positions=positions)
        if pooled is not None:
            states = self.states(ids, mask, positions=positions)
            return self.project(states[torch.arange(len(ids), device=ids.device), pooled])
        pooling = self.settings.pooling
        given = {} if positions is None else {"position_ids": positions}
        states = self.backbone(
            input_ids=ids, attention_mask=mask, output_hidden_states=needs_hidden_states(pooling), **given
        )
        layers = states.hidden_states if needs_hidden_states(pooling) else None
        counted = mask if pooled_mask is None else pooled_mask
        vectors = pool(pooling, states.last_hidden_state, layers, counted, self.settings.pooled_token)
        return self.project(vectors)

    def project(self, vectors: Tensor) -> Tensor:
        """What follows pooling: the head, unless it is for training only and this is not training; then projections,
        and the numbers that are kept."""
        if self.head is not None and (self.training or self.keeps_head):
            vectors = self.head(vectors)
        for projection in self.projections:
            vectors = projection(vectors)
        kept = self.settings.truncate_dim
        return vectors if kept is None else vectors[..., :kept]

    def states(self, ids: Tensor, mask: Tensor, *, positions: Tensor | None = None) -> Tensor:
        """The last layer's token states (batch, tokens, width), for losses on tokens."""
        given = {} if positions is None else {"position_ids": positions}
        states: Tensor = self.backbone(input_ids=ids, attention_mask=mask, **given).last_hidden_state
        return states

    def at_precision(self, precision: str) -> Self:
        """This encoder in float32, else one that computes in bf16 or int8 and shares all but the backbone with it."""
        check_precision(precision, self.device)
        if precision == "float32":
            return self
        return self.with_backbone(self._lowered.backbone(self.backbone, precision))

    def with_backbone(self, backbone: nn.Module) -> Self:
        """An encoder that shares all with this one except the backbone."""
        projections: Any = self.projections
        return type(self)(backbone, self.tokenizer, self.settings, head=self.head, projections=projections).eval()

    def with_max_length(self, max_length: int) -> Self:
        """An encoder that reads so many tokens and shares all else with this one."""
        projections: Any = self.projections
        other = type(self)(
            self.backbone,
            self.tokenizer,
            replace(self.settings, max_length=max_length),
            head=self.head,
            projections=projections,
            provenance=self.provenance,
            name=self.name,
            source=self.source,
        )
        other.precision = self.precision
        return other.eval()

    def with_layers(self, layers: Sequence[Projection], *, name: str, facts: Mapping[str, Any]) -> Self:
        """This encoder with layers behind what it gives; it shares all else with it.

        The layers take whole vectors, so nothing is truncated any more. facts: of the layers, for the provenance.
        """
        projections: Any = self.projections
        made = type(self)(
            self.backbone,
            self.tokenizer,
            replace(self.settings, truncate_dim=None),
            head=self.head if self.keeps_head else None,
            projections=[*projections, *layers],
            provenance={**self.provenance, **facts},
            name=name,
        )
        made.precision = self.precision
        return made.eval().to(self.device)

    def weights_changed(self) -> None:
        """To be said after weights were changed where torch does not count it, as a replayed step does."""
        self._lowered.forget()

    def set_aside(self) -> None:
        """To the CPU, without its copies in lower precision: for one that is not asked any more for now."""
        self._lowered.clear()
        self.cpu()

    @property
    def keeps_head(self) -> bool:
        """Whether the head, if there is one, is part of the encoder at inference."""
        return self.settings.pooling != "cls_before_head"

    @property
    def is_static(self) -> bool:
        """Whether its tokens' vectors know nothing of their sentence (StaticEmbedding): there is no network."""
        return isinstance(self.backbone, StaticBackbone)

    @property
    def width(self) -> int:
        """Size of a token's state."""
        config: Any = self.backbone.config
        return int(getattr(config, "hidden_size", None) or config.d_model)

    @property
    def dimension(self) -> int:
        """Size of a sentence's vector."""
        return min(self.full_dimension, self.settings.truncate_dim or self.full_dimension)

    @property
    def full_dimension(self) -> int:
        """Its size before it is truncated."""
        layers = [self.head if self.keeps_head else None, *self.projections]
        sizes = [getattr(layer, "size_out", None) for layer in layers]  # UnitLength has none of its own
        return next((int(size) for size in reversed(sizes) if size is not None), self._pooled_size)

    @property
    def _pooled_size(self) -> int:
        return self.width * len(self.settings.pooling.split("+"))

    @property
    def padding_id(self) -> int:
        """The padding token, or another special one where the tokenizer has none (Llama, Mistral, GPT-2)."""
        named = (getattr(self.tokenizer, f"{name}_token_id", None) for name in PADDING_TOKENS)
        return int(next((token for token in named if token is not None), 0))

    @property
    def first_position(self) -> int:
        """The position of a first token: some families count from behind the padding token's id."""
        config: Any = self.backbone.config
        return int(config.pad_token_id) + 1 if config.model_type in OFFSET_FAMILIES else 0

    @property
    def trailing_padding(self) -> int:
        """Padding that must follow the longest sentence of a batch; see `backbone.trailing_padding`."""
        return trailing_padding(self.backbone)

    @cached_property
    def needs_equal_lengths(self) -> bool:
        """Whether padding changes a sentence's vector: only sentences of one length then pass together.

        Found out by trying: some models mix all tokens (FNet), pool or convolve over neighbours (Funnel, ConvBERT).
        """
        return padding_matters(self)

    @property
    def device(self) -> torch.device:
        return next(self.backbone.parameters()).device


@contextmanager
def cut_embeddings(backbone: nn.Module, *kept: Tensor | None) -> Iterator[None]:
    """Within it, what comes out of the backbone's layer of embeddings is 0 wherever one of `kept` is false.

    kept: tensors that can be broadcast to the embedded tokens (rows, tokens, width); None: all is kept.
    """

    def cut(embedded: Tensor) -> Tensor:
        for each in kept:
            embedded = embedded if each is None else embedded * each.to(embedded.dtype)
        return embedded

    with _changed_embeddings(backbone, cut):
        yield


@contextmanager
def put_embeddings(backbone: nn.Module, vectors: Tensor, index: Tensor) -> Iterator[None]:
    """Within it, `vectors` (n, width) stand for n embedded tokens, after their norm and dropout.

    index: (n,) which ones, counted through all rows.
    """

    def put(embedded: Tensor) -> Tensor:
        flat = embedded.flatten(0, 1)
        return flat.index_copy(0, index, vectors.to(embedded.dtype)).view_as(embedded)

    with _changed_embeddings(backbone, put):
        yield


@contextmanager
def _changed_embeddings(backbone: nn.Module, change: Callable[[Tensor], Tensor]) -> Iterator[None]:
    hook = backbone.get_submodule("embeddings").register_forward_hook(lambda module, given, embedded: change(embedded))
    try:
        yield
    finally:
        hook.remove()


@contextmanager
def at_inference(network: SentenceNetwork) -> Iterator[None]:
    """Without dropout; the mode is as it was afterwards."""
    was_training = network.training
    network.eval()
    try:
        yield
    finally:
        network.train(was_training)


def padding_matters(network: SentenceNetwork) -> bool:
    """Whether padding behind a sentence changes its vector, found out by trying."""
    ids = tokenise(network.tokenizer, [PROBE], network.settings.max_length)[0]
    lengths = torch.tensor([len(ids)], device=network.device)
    tokens = torch.tensor(ids, device=network.device)
    widths = [len(ids) + network.trailing_padding + more for more in (0, 5)]
    if not ids or widths[1] > network.settings.max_length:
        return False
    rows = [pad_tokens(tokens, torch.zeros_like(lengths), lengths, width, network.padding_id) for width in widths]
    try:
        with at_inference(network), torch.inference_mode():
            passes = (network.backbone(input_ids=tokens, attention_mask=mask) for tokens, mask in rows)
            alone, padded = (states.last_hidden_state[:, : len(ids)] for states in passes)
    except (RuntimeError, ValueError, TypeError, IndexError, KeyError) as error:
        raise ModelError(
            f"{network.name}: the code of {type(network.backbone).__name__} fails on a short sentence "
            f"({first_line(error)}); another model is needed, or another configuration of it."
        ) from error
    return bool((alone - padded).abs().max() > PADDING_TOLERANCE * alone.abs().max())


def pad_tokens(ids: Tensor, starts: Tensor, lengths: Tensor, width: int, padding: int) -> tuple[Tensor, Tensor]:
    """Token ids and their mask (batch, width) from the tokens of all sentences, without a word to the host."""
    columns = torch.arange(width, device=ids.device)
    mask = columns < lengths[:, None]  # (batch, width)
    if not len(ids):  # sentences without tokens, all of them
        return torch.full_like(mask, padding, dtype=torch.long), mask.long()
    inside = (starts[:, None] + columns).clamp_(max=len(ids) - 1)
    return ids[inside].long().masked_fill_(~mask, padding), mask.long()
