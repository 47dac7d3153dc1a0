"""SBERT: a classifier over two sentences' vectors learns the class of the pair, or their cosine learns its score.

Classes (`data: labelled`, NLI): L = cross-entropy of softmax(W (u, v, |u − v|) + b). Of triplets, anchor and positive
are one class, anchor and hard negative the other. Scores (`data: pairs`): L = mean of (cos(u, v) − score)², scores
divided by the highest. The classifier is for training only.

Assumed: W has a bias, as in the released code; scores below 0 keep their sign.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field
from torch import Tensor, nn

from nearer.encoder import Encoder
from nearer.errors import InputError, SettingError
from nearer.methods.contract import Batch, Inputs, Losses, Method, Modules, Outputs, Pass
from nearer.methods.facts import MethodFacts, Paper
from nearer.objectives import cosine_regression, pair_classes
from nearer.text.reading import Reading

Feature = Literal["first", "second", "difference", "product"]
MOST_CLASSES = 1000  # more are no classes, but scores or ids


class SBERTSettings(BaseModel):
    """What an SBERT recipe can set beside the loop's settings."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    features: tuple[Feature, ...] = Field(
        ("first", "second", "difference"),
        min_length=1,
        description="what the classifier sees of a pair: u, v, |u − v|, u · v number by number (Table 6)",
    )
    highest_score: float | None = Field(
        None, gt=0, le=1e6, description="the score of which the cosine is to be 1; null: the highest in the data"
    )


FACTS = MethodFacts(
    name="sbert",
    title="SBERT",
    what="A classifier over two vectors and their difference learns the class of a pair, or their cosine its score.",
    needs="pairs with classes (NLI) or with scores; or triplets",
    paper=Paper(
        "reimers2019sentence",
        "Sentence-BERT: Sentence Embeddings using Siamese BERT-Networks",
        ("Reimers, Nils", "Gurevych, Iryna"),
        "Proceedings of the 2019 Conference on Empirical Methods in Natural Language Processing and the 9th "
        "International Joint Conference on Natural Language Processing (EMNLP-IJCNLP)",
        2019,
    ),
    data=("labelled", "triplets", "pairs"),
)


class Classifier(nn.Module):
    """Scores of the classes of a pair, from the two sentences' vectors."""

    def __init__(self, size: int, features: tuple[Feature, ...], classes: int) -> None:
        super().__init__()
        self.features = features
        self.linear = nn.Linear(len(features) * size, classes)

    def forward(self, first: Tensor, second: Tensor) -> Tensor:
        """Logits (pairs, classes) of vectors (pairs, dimension)."""
        of = {"first": first, "second": second, "difference": (first - second).abs(), "product": first * second}
        seen = torch.cat([of[feature] for feature in self.features], dim=-1)
        logits: Tensor = self.linear(seen.to(self.linear.weight.dtype))
        return logits


class SBERT(Method):
    """The method as the loop sees it."""

    facts = FACTS
    Settings = SBERTSettings
    settings: SBERTSettings
    classifier: Classifier | None = None
    classes: tuple[str, ...] = ()
    of_record: NDArray[Any] | None = None  # the number of each record's class, or its score

    def prepare(
        self,
        encoder: Encoder,
        reading: Reading[Any],
        *,
        max_length: int | None = None,
        progress: bool = False,
    ) -> list[str]:
        kind = reading.shape.name
        if kind == "pair":
            self.of_record = self._read_scores(reading)
            return []
        if kind == "labelled pair":
            self.classes, self.of_record = _read_classes(reading)
        elif kind == "triplet":
            self.classes = ("positive", "hard negative")
        else:
            raise SettingError(f"data: SBERT learns from {FACTS.needs}; set data=labelled, triplets or pairs.")
        self.classifier = Classifier(encoder.dimension, self.settings.features, len(self.classes)).to(encoder.device)
        return []

    def modules(self) -> nn.ModuleDict:
        return nn.ModuleDict({} if self.classifier is None else {"classifier": self.classifier})

    def inputs(self, batch: Batch) -> Inputs:
        names = ("first", "second", "third")[: len(batch.fields)]
        passes = {name: Pass(rows) for name, rows in zip(names, batch.fields, strict=True)}
        if self.of_record is not None:
            return Inputs(passes, {"wanted": self.of_record[batch.records]})
        return Inputs(passes, {"wanted": np.repeat(np.arange(2), len(batch.records))})

    def loss(self, outputs: Outputs, given: Mapping[str, Tensor], modules: Modules) -> Losses:
        first, second, *third = outputs.vectors.values()
        if self.classifier is None:
            regression = cosine_regression(first, second, given["wanted"])
            return Losses(regression, {"regression": regression})
        # of triplets all pairs with positives, then all with hard negatives
        firsts, seconds = torch.cat([first, *[first] * len(third)]), torch.cat([second, *third])
        classes = pair_classes(modules["classifier"](firsts, seconds), given["wanted"])
        return Losses(classes, {"classes": classes})

    def describe(self) -> dict[str, Any]:
        return {**super().describe(), **({"classes": list(self.classes)} if self.classes else {})}

    def _read_scores(self, reading: Reading[Any]) -> NDArray[np.float32]:
        scores = []
        for line, pair in reading.located():
            if pair.score is None:
                raise InputError(
                    f"{reading.source}: {reading.report.unit} {line} has no score, and each pair needs one (column 3); "
                    "classes such as entailment need data=labelled."
                )
            scores.append(pair.score)
        highest = self.settings.highest_score or max(scores, default=0.0)
        if highest <= 0:
            raise InputError(f"{reading.source}: no score is above 0, so no pair is to be near; name highest_score.")
        return np.array(scores, dtype=np.float32) / np.float32(highest)


def _read_classes(reading: Reading[Any]) -> tuple[tuple[str, ...], NDArray[np.int64]]:
    """The classes in the order of their names, and the number of each record's."""
    labels = [record.label for record in reading]
    classes = tuple(sorted(set(labels)))
    if len(classes) < 2:
        raise InputError(f"{reading.source}: all pairs have one class ({classes[0] if classes else 'none'}).")
    if len(classes) > MOST_CLASSES:
        raise InputError(
            f"{reading.source}: {len(classes)} classes found, {MOST_CLASSES} at most; scores need data=pairs."
        )
    number = {label: n for n, label in enumerate(classes)}
    return classes, np.array([number[label] for label in labels], dtype=np.int64)
