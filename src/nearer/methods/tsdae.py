"""TSDAE: words are deleted from a sentence, and a decoder that knows its vector alone says the whole sentence again.

L = − mean over t of log p(x_{t+1} | x_1 … x_t, s),  s = encoder(x̃).  x̃ is the sentence without about 60 % of its words.
The decoder is the encoder's own backbone under a causal mask; it looks at s by a cross-attention, which alone is new.
Only the encoder is saved.

Assumed, where the paper and its released code leave room or differ: each word is deleted for itself with probability
`deletion_rate` (scripts of 2025 keep the word instead, so at 0.6 they delete 40 %); words are deleted from the tokens
that are left at `max_length`; the prediction's head is the checkpoint's head for masked tokens, tied to the words.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field
from torch import Tensor, nn

from nearer.encoder import Encoder
from nearer.encoder.language_head import LanguageHead, language_head
from nearer.errors import InputError, SettingError
from nearer.methods.contract import Batch, Inputs, Losses, Method, Modules, Outputs, Pass
from nearer.methods.decoder import Decoder, make_decoder
from nearer.methods.facts import MethodFacts, Paper
from nearer.objectives import masked_language
from nearer.objectives.masked_language import NOTHING
from nearer.text.augmentation import Augmenter
from nearer.text.reading import Reading


class TSDAESettings(BaseModel):
    """What a TSDAE recipe can set beside the loop's settings."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    deletion_rate: float = Field(
        0.6, ge=0, lt=1, description="how probable it is that a word is deleted before the encoder sees the sentence"
    )
    decoder: Literal["tied", "small"] = Field(
        "tied",
        description="what says the sentence again: the encoder's own backbone (tied), or layers of its own over the "
        "same word embeddings (small), for backbones that cannot be their own decoder",
    )
    decoder_layers: int = Field(2, ge=1, le=48, description="layers of a small decoder")


FACTS = MethodFacts(
    name="tsdae",
    title="TSDAE",
    what="From the vector of a sentence without most of its words, a decoder says the whole sentence again.",
    needs="sentences",
    paper=Paper(
        "wang2021tsdae",
        "TSDAE: Using Transformer-based Sequential Denoising Auto-Encoder for Unsupervised Sentence Embedding Learning",
        ("Wang, Kexin", "Reimers, Nils", "Gurevych, Iryna"),
        "Findings of the Association for Computational Linguistics: EMNLP 2021",
        2021,
    ),
    data=("sentences",),
    views=1,
)


class TSDAE(Method):
    """The method as the loop sees it."""

    facts = FACTS
    Settings = TSDAESettings
    settings: TSDAESettings
    decoder: Decoder
    head: LanguageHead

    def prepare(
        self,
        encoder: Encoder,
        reading: Reading[Any] | None = None,
        *,
        max_length: int | None = None,
        progress: bool = False,
    ) -> list[str]:
        if encoder.head is not None:
            raise SettingError("head: TSDAE has none, the decoder sees the encoder's own vector; set head=false.")
        template = encoder.settings.template
        self.noise = Augmenter(
            "drop_words",
            self.settings.deletion_rate,
            encoder.tokenizer,
            around=None if template is None else (len(template.before), len(template.after)),
        )
        self.decoder = make_decoder(
            encoder,
            self.settings.decoder,
            layers=self.settings.decoder_layers,
            longest=max_length or encoder.settings.max_length,
        )
        self.head, remark = language_head(encoder.backbone, encoder.source)
        self.head.to(encoder.device)
        return [remark] if remark else []

    def modules(self) -> nn.ModuleDict:
        return nn.ModuleDict({"decoder": self.decoder, "language_head": self.head})

    def inputs(self, batch: Batch) -> Inputs:
        if len(batch.fields) > 1:
            raise InputError("TSDAE learns from sentences alone: set data=sentences.")
        rows = batch.fields[0]
        damaged = Pass([self.noise(row, batch.random) for row in rows])
        decoded = Pass(
            [row[: max(1, len(row) - 1)] for row in rows],
            "decoder",
            "tokens",
            condition="damaged",
            chosen=[np.full(max(1, len(row) - 1), len(row) > 1) for row in rows],
            labels={"next": [row[1:] if len(row) > 1 else row for row in rows]},
        )
        return Inputs({"damaged": damaged, "decoded": decoded})

    def loss(self, outputs: Outputs, given: Mapping[str, Tensor], modules: Modules) -> Losses:
        decoded = outputs.tokens["decoded"]
        logits = modules["language_head"](decoded.states, modules.word_embeddings)
        targets = decoded.labels["next"].where(decoded.real, NOTHING)
        reconstruction = masked_language(logits, targets) / decoded.real.sum().clamp(min=1)
        return Losses(reconstruction, {"reconstruction": reconstruction})
