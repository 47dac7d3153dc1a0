"""A method outside the package that uses all of the contract: a small relative of DiffCSE with queries and passages.

Found by the entry point beside this file once the folder is on the path. Two views of a sentence contrast with each
other, pooled at chosen tokens, one with positions of its own and one normalised over the batch; a frozen generator
guesses masked tokens; a detector, conditioned on the sentence's vector, tells which tokens were replaced; and a
sentence lies near its two passages. What earlier batches left is a negative.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from pydantic import BaseModel, ConfigDict
from torch import Tensor, nn

from nearer.encoder import Encoder
from nearer.methods import Batch, Inputs, Losses, Method, MethodFacts, Modules, Outputs, Paper, Pass, Tokens
from nearer.objectives import info_nce
from nearer.text.reading import Reading

WIDTH = 16


class ToySettings(BaseModel):
    model_config = ConfigDict(extra="forbid")

    contrastive_weight: float = 1.0
    detection_weight: float = 1.0
    passage_weight: float = 1.0
    same_masks: bool = False


class Generator(nn.Module):
    """States of tokens by a table; nothing is trained."""

    def __init__(self, vocabulary: int) -> None:
        super().__init__()
        self.table = nn.Embedding(vocabulary, WIDTH)
        self.dropout = nn.Dropout(0.5)  # at work only if it were not frozen
        self.requires_grad_(False)

    def states(self, ids: Tensor, mask: Tensor) -> Tensor:
        found: Tensor = self.dropout(self.table(ids))
        return found


class Detector(nn.Module):
    """States of tokens that know the sentence's vector; and of each whether it was replaced."""

    def __init__(self, vocabulary: int, dimension: int) -> None:
        super().__init__()
        self.table = nn.Embedding(vocabulary, WIDTH)
        self.condition = nn.Linear(dimension, WIDTH)
        self.score = nn.Linear(WIDTH, 1)

    def states(self, ids: Tensor, mask: Tensor, condition: Tensor) -> Tensor:
        return torch.tanh(self.table(ids) * self.condition(condition)[:, None])

    def forward(self, states: Tensor) -> Tensor:
        scores: Tensor = self.score(states)[:, 0]
        return scores


class Memory(nn.Module):
    """The mean of earlier vectors, which is a negative."""

    mean: Tensor

    def __init__(self, dimension: int) -> None:
        super().__init__()
        self.register_buffer("mean", torch.ones(1, dimension))


class Toy(Method):
    facts = MethodFacts(
        name="toy",
        title="Toy",
        what="Everything that a method can ask for, in small.",
        needs="sentences",
        paper=Paper("nobody2026toy", "A Toy", ("Nobody, Nemo",), "Nowhere", 2026),
        data=("sentences",),
        views=4,
    )
    Settings = ToySettings
    settings: ToySettings

    def prepare(
        self, encoder: Encoder, reading: Reading[Any], *, max_length: int | None = None, progress: bool = False
    ) -> list[str]:
        random = torch.random.get_rng_state()
        torch.manual_seed(5)
        vocabulary = len(encoder.tokenizer)
        self.mask_id = int(encoder.tokenizer.mask_token_id)
        self.generator = Generator(vocabulary).to(encoder.device)
        self.detector = Detector(vocabulary, encoder.dimension).to(encoder.device)
        self.norm = nn.BatchNorm1d(encoder.dimension).to(encoder.device)
        self.memory = Memory(encoder.dimension).to(encoder.device)
        torch.random.set_rng_state(random)
        return []

    def modules(self) -> nn.ModuleDict:
        parts = {"generator": self.generator, "detector": self.detector, "norm": self.norm, "memory": self.memory}
        return nn.ModuleDict(parts)

    def inputs(self, batch: Batch) -> Inputs:
        rows = batch.fields[0]
        # the same for every number of processes: each token's numbers follow from the token
        chosen = [(ids * 7 + np.arange(len(ids))) % 3 == 0 for ids in rows]
        for marks in chosen:
            marks[0] = False
        uniform = [((ids * 31 + np.arange(len(ids)) * 17) % 97 / 97).astype(np.float32) for ids in rows]
        masked = [np.where(marks, self.mask_id, ids) for ids, marks in zip(rows, chosen, strict=True)]
        return Inputs(
            {
                "first": Pass(rows, pooled=[len(ids) - 1 for ids in rows]),
                "second": Pass(
                    rows,
                    pooled=[1] * len(rows),
                    positions=[np.arange(len(ids)) + 2 for ids in rows],
                    noise_of="first" if self.settings.same_masks else None,
                ),
                "passages": Pass([half for ids in rows for half in (ids[:3], ids)]),
                "guesses": Pass(
                    masked, "generator", "tokens", chosen=chosen, labels={"uniform": uniform, "right": rows}
                ),
                "replaced": Pass(
                    rows,
                    "detector",
                    "tokens",
                    condition="first",
                    replaces="guesses",
                    chosen=chosen,
                    labels={"right": rows},
                ),
            }
        )

    def replace(self, name: str, tokens: Tokens, modules: Modules) -> Tensor:
        """Drawn from the generator's distribution by numbers that came with the batch."""
        shares = (tokens.states @ self.generator.table.weight.T).softmax(dim=-1).cumsum(dim=-1)
        return (shares < tokens.labels["uniform"][:, None]).sum(dim=-1).clamp(max=shares.shape[1] - 1)

    def loss(self, outputs: Outputs, given: Mapping[str, Tensor], modules: Modules) -> Losses:
        first, second = outputs.vectors["first"], outputs.vectors["second"]
        earlier = self.memory.mean
        contrastive = info_nce(
            modules["norm"](first), second, more_negatives=(earlier, torch.ones_like(earlier[:, 0], dtype=torch.bool))
        )
        passages = outputs.vectors["passages"].unflatten(0, (-1, 2))  # (batch, 2, dimension)
        near = 1 - torch.cosine_similarity(first[:, None], passages, dim=-1).mean()
        replaced = outputs.tokens["replaced"]
        real = replaced.real.float()
        wanted = (replaced.ids != replaced.labels["right"]).float()
        each = torch.nn.functional.binary_cross_entropy_with_logits(
            modules["detector"](replaced.states), wanted, reduction="none"
        )
        detection = (each * real).sum() / real.sum()
        settings = self.settings
        total = (
            settings.contrastive_weight * contrastive
            + settings.detection_weight * detection
            + settings.passage_weight * near
        )
        parts = {"contrastive": contrastive, "detection": detection, "passages": near}
        return Losses(total, parts, {"second": second})

    def remember(self, kept: Mapping[str, Tensor]) -> None:
        self.memory.mean.lerp_(kept["second"].mean(dim=0).to(self.memory.mean.dtype), 0.5)
