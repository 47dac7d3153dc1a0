"""IS-BERT: a sentence's vector is to share as much as it can with its own n-grams, and little with those of others.

L = minus the Jensen–Shannon estimate of the mutual information between l_t, the features of the n-grams around token t,
and E = mean of l_t, the vector. l_t is what convolutions over 1, 3 and 5 states make of them, joined.

The released code has no activation behind its convolutions (that of the paper could not be checked). Then E is linear
in the states, and the layer can be kept: here windows go round at a sentence's ends, [SEP] beside [CLS], so that E is
exactly a linear layer W on the mean of the states, W being the sum of a convolution's matrices. That layer is part of
the encoder that is saved. The convolutions are W h_t + Σ_j V_j (h_{t+j} − h_t) with matrices V_j for training only. (At
its ends the released code sees whatever padding follows.)
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from pydantic import BaseModel, ConfigDict, Field, field_validator
from torch import Tensor, nn
from torch.nn.functional import pad

from nearer.encoder import Encoder
from nearer.encoder.parts import Dense
from nearer.errors import InputError, SettingError
from nearer.methods.contract import Batch, Inputs, Losses, Method, Modules, Outputs, Pass
from nearer.methods.facts import MethodFacts, Paper
from nearer.objectives import mutual_information
from nearer.text.reading import Reading

WIDEST = 31  # tokens of an n-gram


class ISBERTSettings(BaseModel):
    """What an IS-BERT recipe can set beside the loop's settings."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    windows: tuple[int, ...] = Field(
        (1, 3, 5), min_length=1, description="tokens of the n-grams; each has an equal part of the vector's numbers"
    )

    @field_validator("windows")
    @classmethod
    def _odd_and_rising(cls, windows: tuple[int, ...]) -> tuple[int, ...]:
        if any(window < 1 or window > WIDEST or window % 2 == 0 for window in windows):
            raise ValueError(f"each is an odd number of tokens, {WIDEST} at most")
        return tuple(sorted(windows))


FACTS = MethodFacts(
    name="isbert",
    title="IS-BERT",
    what="A sentence's vector is to tell its own n-grams from those of the batch's other sentences.",
    needs="sentences",
    paper=Paper(
        "zhang2020unsupervised",
        "An Unsupervised Sentence Embedding Method by Mutual Information Maximization",
        ("Zhang, Yan", "He, Ruidan", "Liu, Zuozhu", "Lim, Kwan Hui", "Bing, Lidong"),
        "Proceedings of the 2020 Conference on Empirical Methods in Natural Language Processing (EMNLP)",
        2020,
    ),
    data=("sentences",),
    views=1,
    saves="an encoder with a linear layer behind its pooling",
)


class NgramFeatures(nn.Module):
    """Convolutions over the tokens of a sentence, of which the last windows are the widest.

    layer: the sum of each convolution's matrices, which is the encoder's own layer.
    """

    def __init__(self, layer: Dense, windows: tuple[int, ...]) -> None:
        super().__init__()
        self.layer = layer
        sizes = [len(part) for part in np.array_split(np.arange(layer.size_out), len(windows))]
        reach = [window // 2 for window in windows]
        self.shifts = [shift for shift in range(-reach[-1], reach[-1] + 1) if shift]
        # of each shift, the features of all windows that reach so far
        tails = [sum(size for size, far in zip(sizes, reach, strict=True) if far >= abs(n)) for n in self.shifts]
        self.neighbours = nn.ModuleList(nn.Linear(layer.size_in, tail, bias=False) for tail in tails)

    def forward(self, states: Tensor, shifts: list[Tensor]) -> Tensor:
        """Features (tokens, size) of states (tokens, width); shifts: how far each token's neighbour stands from it."""
        features: Tensor = self.layer(states)
        number = torch.arange(len(states), device=states.device)
        for linear, shift in zip(self.neighbours, shifts, strict=True):
            # every token is the neighbour of one, so the gradient has nothing to sum in an order that could change
            found = linear(states.index_select(0, number + shift) - states)
            features = features + pad(found, (features.shape[1] - found.shape[1], 0))
        return features


class ISBERT(Method):
    """The method as the loop sees it."""

    facts = FACTS
    Settings = ISBERTSettings
    settings: ISBERTSettings
    ngrams: NgramFeatures

    def prepare(
        self,
        encoder: Encoder,
        reading: Reading[Any] | None = None,
        *,
        max_length: int | None = None,
        progress: bool = False,
    ) -> list[str]:
        if encoder.settings.pooling != "mean":
            raise SettingError(
                f"pooling: IS-BERT's vector is a mean over tokens; set pooling=mean, not {encoder.settings.pooling}."
            )
        if encoder.head is not None or len(encoder.projections) or encoder.settings.truncate_dim:
            raise SettingError(
                f"model: IS-BERT puts a layer of its own behind the pooling, and {encoder.name} has one already; begin "
                "with a plain checkpoint and head=false."
            )
        if encoder.width < len(self.settings.windows):
            raise SettingError(f"windows: {len(self.settings.windows)} named, vectors have {encoder.width} numbers.")
        layer = Dense(encoder.width, encoder.width, activation="Identity").to(encoder.device)
        encoder.projections.append(layer)
        self.ngrams = NgramFeatures(layer, self.settings.windows).to(encoder.device)
        return []

    def modules(self) -> nn.ModuleDict:
        return nn.ModuleDict({"ngrams": self.ngrams})

    def inputs(self, batch: Batch) -> Inputs:
        if len(batch.fields) > 1:
            raise InputError("IS-BERT learns from sentences alone: set data=sentences.")
        rows = batch.fields[0]
        labels = {"sentence": [np.full(len(row), batch.first + number) for number, row in enumerate(rows)]}
        for shift in self.ngrams.shifts:
            own = [np.arange(len(row)) for row in rows]
            labels[f"shift {shift}"] = [(indices + shift) % len(indices) - indices for indices in own]
        number = np.arange(len(batch.records))
        return Inputs({"sentences": Pass(rows, wanted="tokens", labels=labels)}, {"number": number})

    def loss(self, outputs: Outputs, given: Mapping[str, Tensor], modules: Modules) -> Losses:
        tokens = outputs.tokens["sentences"]
        shifts = [tokens.labels[f"shift {shift}"] for shift in self.ngrams.shifts]
        local = modules["ngrams"](tokens.states, shifts).float()  # (tokens, size)
        own = (tokens.labels["sentence"][:, None] == given["number"]) & tokens.real[:, None]  # (tokens, sentences)
        member = own.to(local.dtype)
        vectors = member.T @ local / member.sum(dim=0).clamp(min=1)[:, None]  # (sentences, size)
        information = mutual_information(local @ vectors.T, own, tokens.real)
        return Losses(information, {"information": information})
