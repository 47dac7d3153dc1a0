"""DeCLUTR: spans of one document that stand near each other are to be near, spans of others and of far parts not.

L = NT-Xent(e_i, mean of e_i⁺) + w · L_MLM.  Of each document a few anchors are drawn, and for each some positives that
lie beside, over or within it; the vectors of an anchor's positives are averaged. The other anchors of the same document
are negatives like all others. L_MLM is on the anchors.

Assumed: spans are cut from tokens; the masked anchor is also that of the contrast, as in the released code
(`masked_anchors`), though each pass has dropout of its own. Documents that are shorter than the released 2 048 tokens
have shorter spans in proportion.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any

import numpy as np
from pydantic import BaseModel, ConfigDict, Field
from torch import Tensor, nn

from nearer.encoder import Encoder
from nearer.errors import InputError, SettingError
from nearer.methods.bounds import Temperature, Weight
from nearer.methods.contract import Batch, Ids, Inputs, Losses, Method, Modules, Outputs, Pass, RecordForm
from nearer.methods.facts import MethodFacts, Paper
from nearer.methods.masked_language import MODULE, PASS, MaskedLanguage
from nearer.objectives import nt_xent
from nearer.text.reading import Reading
from nearer.text.spans import SpanSampler
from nearer.text.tokenise import token_counts

SAMPLE = 200  # documents whose tokens are counted before the first step


class DeCLUTRSettings(BaseModel):
    """What a DeCLUTR recipe can set beside the loop's settings."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    anchors: int = Field(2, ge=1, le=64, description="spans of a document that are anchors")
    positives: int = Field(2, ge=1, le=64, description="spans near each anchor, whose vectors are averaged")
    shortest_span: int = Field(32, ge=1, le=10**6, description="tokens of a span at least; at most: max_length")
    document_tokens: int = Field(2048, ge=8, le=10**6, description="documents are cut after so many tokens")
    temperature: Temperature = Field(0.05, description="τ: the smaller, the more the nearest negatives count")
    mlm_weight: Weight = Field(1.0, description="weight of the masked language loss on anchors; 0 leaves it out")
    mlm_rate: float = Field(0.15, gt=0, lt=1, description="share of tokens that are masked")
    masked_anchors: bool = Field(
        True, description="anchors are masked for the contrast too, as in the released code; false: they are whole"
    )


FACTS = MethodFacts(
    name="declutr",
    title="DeCLUTR",
    what="Spans of a document are to be nearer to spans around them than to all others; masked words beside.",
    needs="documents (running text, one a line)",
    paper=Paper(
        "giorgi2021declutr",
        "DeCLUTR: Deep Contrastive Learning for Unsupervised Textual Representations",
        ("Giorgi, John", "Nitski, Osvald", "Wang, Bo", "Bader, Gary"),
        "Proceedings of the 59th Annual Meeting of the Association for Computational Linguistics and the 11th "
        "International Joint Conference on Natural Language Processing (Volume 1: Long Papers)",
        2021,
    ),
    data=("sentences",),
    views=6,
)


class DeCLUTR(Method):
    """The method as the loop sees it."""

    facts = FACTS
    Settings = DeCLUTRSettings
    settings: DeCLUTRSettings
    draws_rows = True
    spans: SpanSampler

    def __init__(self, settings: DeCLUTRSettings) -> None:
        super().__init__(settings)
        self.mlm = MaskedLanguage(settings.mlm_rate) if settings.mlm_weight else None

    def record_form(self, encoder: Encoder, reading: Reading[Any], max_length: int) -> RecordForm:
        return RecordForm(self.settings.document_tokens, setting="document_tokens")

    def prepare(
        self,
        encoder: Encoder,
        reading: Reading[Any],
        *,
        max_length: int | None = None,
        progress: bool = False,
    ) -> list[str]:
        settings, template = self.settings, encoder.settings.template
        if reading.shape.name != "sentence":
            raise SettingError("data: DeCLUTR learns from documents, a text each; set data=sentences.")
        around = 2 if template is None else template.size
        longest = (max_length or encoder.settings.max_length) - around
        if longest < 1:
            raise SettingError(f"max_length: nothing is left for a span beside {around} tokens around it.")
        self.spans = SpanSampler(settings.anchors, settings.positives, min(settings.shortest_span, longest), longest)
        self.around = None if template is None else (len(template.before), len(template.after))
        self.special = set(encoder.tokenizer.all_special_ids)
        remarks = self._look_at_documents(encoder, reading)
        return remarks + (self.mlm.prepare(encoder) if self.mlm is not None else [])

    def modules(self) -> nn.ModuleDict:
        return nn.ModuleDict({} if self.mlm is None else {MODULE: self.mlm.head})

    def inputs(self, batch: Batch) -> Inputs:
        anchors: list[Ids] = []
        positives: list[Ids] = []
        for row in batch.fields[0]:
            first, last = self._inner(row)
            for rows, spans in zip((anchors, positives), self.spans(row[first:last], batch.random), strict=True):
                rows += [np.concatenate([row[:first], span, row[last:]]) for span in spans]
        if self.mlm is None:
            return Inputs({"anchors": Pass(anchors), "positives": Pass(positives)})
        masked = self.mlm.masked(anchors, batch)
        seen = masked.rows if self.settings.masked_anchors else anchors
        return Inputs({"anchors": Pass(seen), "positives": Pass(positives), PASS: masked})

    def loss(self, outputs: Outputs, given: Mapping[str, Tensor], modules: Modules) -> Losses:
        anchors, positives = outputs.vectors["anchors"], outputs.vectors["positives"]
        of_each = positives.reshape(len(anchors), self.settings.positives, -1).mean(dim=1)
        contrastive = nt_xent(anchors, of_each, temperature=self.settings.temperature)
        if self.mlm is None:
            return Losses(contrastive, {"contrastive": contrastive})
        mlm = self.mlm.loss(outputs, modules)
        return Losses(contrastive + self.settings.mlm_weight * mlm, {"contrastive": contrastive, "mlm": mlm})

    def _inner(self, row: Ids) -> tuple[int, int]:
        """Where the document's own tokens begin and end."""
        if self.around is not None:
            return self.around[0], len(row) - self.around[1]
        first = 1 if len(row) and int(row[0]) in self.special else 0
        last = len(row) - 1 if len(row) > first and int(row[-1]) in self.special else len(row)
        return first, last

    def _look_at_documents(self, encoder: Encoder, reading: Reading[Any]) -> list[str]:
        """An error if the records are sentences, a remark if some documents are short."""
        needed = 2 * self.settings.anchors * self.spans.shortest
        counts = token_counts(encoder.tokenizer, list(itertools.islice(reading, SAMPLE)))
        short = sum(count < needed for count in counts)
        if 2 * short > len(counts):
            raise InputError(
                f"{reading.source}: {short} of its first {len(counts)} records have fewer than {needed} tokens, and "
                f"DeCLUTR needs documents: put a whole text on each line, or lower shortest_span "
                f"({self.settings.shortest_span})."
            )
        return [f"{short} of the first {len(counts)} documents have fewer than {needed} tokens"] if short else []
