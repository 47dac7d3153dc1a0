"""The sentence encoder: a transformers backbone, a pooling, and a head that may be for training only."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from nearer.encoder.backbone import trailing_padding
from nearer.encoder.batching import Tokenised
from nearer.encoder.comparing import ByCosine, Vectors, listed
from nearer.encoder.cutting import CutCounter, CutTexts
from nearer.encoder.encoding import BulkEncoding, at_inference, check_sentences, padding_matters
from nearer.encoder.folder import PADDING_TOKENS, load_parts, save_parts
from nearer.encoder.pooling import needs_hidden_states, pool
from nearer.encoder.precision import LoweredBackbones, check_precision
from nearer.encoder.projection import Dense, Projection, new_head
from nearer.encoder.settings import EncoderSettings
from nearer.encoder.sources import model_folder
from nearer.encoder.static import StaticBackbone
from nearer.errors import SettingError

# These count positions from behind the padding token's id
OFFSET_FAMILIES = ("roberta", "xlm-roberta", "camembert")


class Encoder(ByCosine, nn.Module):
    """Turns sentences into vectors whose cosine says how near they are in meaning.

    Load one with `Encoder.load`; `encode`, `similarity` and `rank` use it; `save` writes a folder that
    sentence-transformers reads too. As a module it maps token ids to vectors: in training mode the head, if
    there is one, is always applied; at inference the pooling decides (`cls_before_head` leaves it out).

    precision: what encoding computes in unless told otherwise: float32, bf16, or int8 on the CPU.
    """

    precision = "float32"
    scoring = "cosine"
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

    @classmethod
    def load(
        cls,
        name: str | Path,
        *,
        pooling: str | None = None,
        max_length: int | None = None,
        text_normalisation: str | None = None,
        pooler_as_head: bool = False,
        device: str | torch.device | None = None,
        revision: str | None = None,
        route: str | None = None,
        trust_remote_code: bool = False,
        allow_pickle: bool = False,
        overrides: Mapping[str, Any] | None = None,
        dropout: float | None = None,
    ) -> Encoder:
        """Load a model by folder, bundled name or hub name.

        pooling: needed for a plain checkpoint; for a model that has one, replaces it.
        pooler_as_head: take the checkpoint's own pooling layer as the head (published supervised SimCSE models).
        overrides: settings of the backbone's configuration, by its own names; dropout: all its dropout rates.
        route: of a model with a Router (query, document …); None takes its default one.
        allow_pickle: read weights that are there as pickles only (pytorch_model.bin); nothing in them is run.
        """
        folder = model_folder(name, revision=revision, remote_code=trust_remote_code, allow_pickle=allow_pickle)
        parts = load_parts(
            folder,
            pooling=pooling,
            max_length=max_length,
            text_normalisation=text_normalisation,
            pooler_as_head=pooler_as_head,
            trust_remote_code=trust_remote_code,
            overrides=overrides,
            dropout=dropout,
            route=route,
        )
        encoder = cls(**parts, name=str(name), source=folder)
        encoder.eval()
        return encoder.to(chosen_device(device))

    def save(self, folder: str | Path, *, overwrite: bool = False) -> None:
        """Write the encoder as it is at inference, in the layout of sentence-transformers.

        A head that is for training only is not part of it. A folder that is there already is left alone
        unless `overwrite` is set, and then replaced as a whole.
        """
        save_parts(self, Path(folder), overwrite=overwrite)

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
    ) -> Tensor:
        """Vectors (batch, dimension) of token ids (batch, tokens); `pooled_mask` marks the tokens that are pooled.

        pooled: (batch,) the index of the one token that becomes a sentence's vector, whatever the model's pooling.
        positions: (batch, tokens) of the tokens; None: as they stand.
        """
        if pooled is not None:
            states = self.states(ids, mask, positions=positions)
            return self.project(states[torch.arange(len(ids), device=ids.device), pooled])
        pooling = self.settings.pooling
        given = {} if positions is None else {"position_ids": positions}
        states = self.backbone(
            input_ids=ids, attention_mask=mask, output_hidden_states=needs_hidden_states(pooling), **given
        )
        layers = states.hidden_states if needs_hidden_states(pooling) else None
        vectors = pool(pooling, states.last_hidden_state, layers, mask if pooled_mask is None else pooled_mask)
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

    def encode(
        self,
        sentences: str | Iterable[str],
        *,
        batch_tokens: int | None = None,
        batch_size: int | None = None,
        normalize: bool | None = None,
        precision: str | None = None,
        progress: bool = False,
        prompt_name: str | None = None,
    ) -> Vectors:
        """Vectors of sentences, float32: (dimension,) for one string, (sentences, dimension) for several.

        batch_tokens: tokens, padding included, that pass the model together; None chooses by the device.
        batch_size: how many sentences these may be at most. normalize: vectors of length 1; None does as the model
        says. precision: float32, bf16 or int8; None is the encoder's. prompt_name: one of the model's prompts.
        """
        one = isinstance(sentences, str)
        bulk = self._bulk(normalize, precision, prompt_name, batch_tokens, batch_size)
        texts = [sentences] if isinstance(sentences, str) else listed(sentences, "sentences")
        vectors = bulk.encode(texts, progress=progress)
        return vectors[0] if one else vectors

    def tokenised(self, sentences: Sequence[str], *, prompt_name: str | None = None) -> Tokenised:
        """Sentences made ready for `encode_tokens`: for those that are encoded again and again."""
        check_sentences(sentences)
        return self._bulk(prompt_name=prompt_name).tokenise(sentences)

    def encode_tokens(
        self,
        tokenised: Tokenised,
        *,
        batch_tokens: int | None = None,
        normalize: bool | None = None,
        precision: str | None = None,
    ) -> Tensor:
        """Vectors (sentences, dimension), float32, on the encoder's device; on a GPU without waiting for them."""
        with at_inference(self):
            return self._bulk(normalize, precision, batch_tokens=batch_tokens).vectors(tokenised)

    def _bulk(
        self,
        normalize: bool | None = None,
        precision: str | None = None,
        prompt_name: str | None = None,
        batch_tokens: int | None = None,
        batch_size: int | None = None,
    ) -> BulkEncoding:
        return BulkEncoding(
            self,
            normalize=self.settings.normalize if normalize is None else normalize,
            precision=precision or self.precision,
            prompt=self.settings.prompt(prompt_name),
            batch_tokens=batch_tokens,
            batch_size=batch_size,
        )

    def at_precision(self, precision: str) -> Encoder:
        """This encoder in float32, else one that computes in bf16 or int8 and shares all but the backbone with it."""
        check_precision(precision, self.device)
        if precision == "float32":
            return self
        return self.with_backbone(self._lowered.backbone(self.backbone, precision))

    def weights_changed(self) -> None:
        """To be said after weights were changed where torch does not count it, as a replayed step does."""
        self._lowered.forget()

    def set_aside(self) -> None:
        """To the CPU, without its copies in lower precision: for one that is not asked any more for now."""
        self._lowered.clear()
        self.cpu()

    def with_max_length(self, max_length: int) -> Encoder:
        """An encoder that reads so many tokens and shares all else with this one."""
        projections: Any = self.projections
        other = Encoder(
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

    def with_backbone(self, backbone: nn.Module) -> Encoder:
        """An encoder that shares all with this one except the backbone."""
        projections: Any = self.projections
        return Encoder(backbone, self.tokenizer, self.settings, head=self.head, projections=projections).eval()

    @property
    def cut_texts(self) -> CutTexts:
        """How many texts it encoded so far, and of how many it left out the end."""
        return self.cut_counter.found(self.settings.max_length)

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


def chosen_device(device: str | torch.device | None) -> torch.device:
    """The device of this name, if it can be used; None stands for a GPU if there is one."""
    if device is None:
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        chosen = torch.device(device)
        torch.empty(0, device=chosen)
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        raise SettingError(f"device: {device!r} cannot be used here ({str(error).splitlines()[0]}).") from None
    return chosen
