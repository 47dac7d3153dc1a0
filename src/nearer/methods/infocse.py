"""InfoCSE: beside the contrast of dropout views, masked words are predicted from weak states and the sentence's vector.

L = InfoNCE(z_1, z_2) + λ · L_MLM,  z behind a projector with batch norm.  For L_MLM each view is masked; a frozen copy
of the checkpoint's lower blocks reads it; the view's vector takes the place of the first token's state; a small side
network goes over both and predicts the masked words. What the weak states do not know, the vector has to carry. Only
the encoder is saved.

Assumed from the released code, since the paper's own numbers could not be checked: λ = 1e-5, 40 % masked, the side
network drawn afresh, the frozen blocks without dropout, a head for words with a copy of the word embeddings of its own,
so that L_MLM reaches the encoder through its vector alone. The released "BERT-base" starts from a Condenser checkpoint
(Luyu/condenser), of which the paper's comparisons with BERT-base say nothing; any checkpoint can be named here.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any, Self

import torch
from pydantic import BaseModel, ConfigDict, Field
from torch import Tensor, nn

from nearer.encoder import Encoder
from nearer.encoder.backbone import block_list
from nearer.encoder.language_head import language_head
from nearer.errors import InputError, SettingError
from nearer.methods.bounds import Temperature, Weight
from nearer.methods.contract import Batch, Inputs, Losses, Method, Modules, Outputs, Pass
from nearer.methods.facts import MethodFacts, Paper
from nearer.methods.projector import Projector
from nearer.objectives import info_nce, masked_language
from nearer.objectives.masked_language import NOTHING
from nearer.text.augmentation import Masker
from nearer.text.reading import Reading


class InfoCSESettings(BaseModel):
    """What an InfoCSE recipe can set beside the loop's settings."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    temperature: Temperature = Field(0.05, description="τ: the smaller, the more the nearest negatives count")
    mlm_weight: Weight = Field(1e-5, description="λ: weight of the loss on masked words; 0 leaves it out")
    mlm_rate: float = Field(0.4, gt=0, lt=1, description="share of tokens that are masked")
    lower_blocks: int | None = Field(
        None,
        ge=1,
        le=1000,
        description="blocks of the checkpoint that read the masked sentence and stay as they are; null: half of them. "
        "With more, words are told without the vector",
    )
    side_blocks: int = Field(2, ge=1, le=48, description="blocks of the network that predicts the masked words")


FACTS = MethodFacts(
    name="infocse",
    title="InfoCSE",
    what="Beside SimCSE's contrast, a side network predicts masked words from a sentence's vector and weak states.",
    needs="sentences, a model with a mask token",
    paper=Paper(
        "wu2022infocse",
        "InfoCSE: Information-aggregated Contrastive Learning of Sentence Embeddings",
        ("Wu, Xing", "Gao, Chaochen", "Lin, Zijia", "Han, Jizhong", "Wang, Zhongyuan", "Hu, Songlin"),
        "Findings of the Association for Computational Linguistics: EMNLP 2022",
        2022,
    ),
    data=("sentences",),
)


class SideNetwork(nn.Module):
    """Frozen lower blocks of a checkpoint, and fresh ones above that see a sentence's vector as their first token."""

    def __init__(self, encoder: Encoder, lower_blocks: int | None, side_blocks: int) -> None:
        super().__init__()
        blocks = block_list(encoder.backbone)
        kind = type(encoder.backbone).__name__
        if blocks is None or not isinstance(getattr(encoder.backbone, "embeddings", None), nn.Module):
            raise SettingError(f"method: {kind} has no layer of embeddings and list of blocks that could be parted.")
        count = len(blocks)
        if lower_blocks is not None and lower_blocks > count:
            raise SettingError(f"lower_blocks: {lower_blocks} asked for, {encoder.name} has {count}.")
        self.lower = copy.deepcopy(encoder.backbone)
        del block_list(self.lower)[lower_blocks or max(1, count // 2) :]  # type: ignore[union-attr]
        self.lower.requires_grad_(False)
        self.upper = _fresh(encoder.backbone, side_blocks)

    def train(self, mode: bool = True) -> Self:
        """The frozen blocks never have dropout."""
        super().train(mode)
        self.lower.eval()
        return self

    def states(self, ids: Tensor, mask: Tensor, *, condition: Tensor) -> Tensor:
        with torch.no_grad():
            weak: Tensor = self.lower(input_ids=ids, attention_mask=mask).last_hidden_state
        embeddings: Any = self.upper.embeddings
        embeddings.given = torch.cat([condition[:, None].to(weak.dtype), weak[:, 1:]], dim=1)
        try:
            states: Tensor = self.upper(input_ids=ids, attention_mask=mask).last_hidden_state
        finally:
            embeddings.given = None
        return states


class WordHead(nn.Module):
    """The checkpoint's head for masked tokens, with a copy of the word embeddings of its own."""

    def __init__(self, head: nn.Module, words: Tensor) -> None:
        super().__init__()
        self.head = head
        self.words = nn.Parameter(words.detach().clone())

    def forward(self, states: Tensor) -> Tensor:
        """Logits (tokens, vocabulary)."""
        logits: Tensor = self.head(states, self.words)
        return logits


class InfoCSE(Method):
    """The method as the loop sees it."""

    facts = FACTS
    Settings = InfoCSESettings
    settings: InfoCSESettings
    side: SideNetwork | None = None
    words: WordHead | None = None

    def relies_on_dropout(self, data: str) -> bool:
        return True

    def prepare(
        self,
        encoder: Encoder,
        reading: Reading[Any] | None = None,
        *,
        max_length: int | None = None,
        progress: bool = False,
    ) -> list[str]:
        settings = self.settings
        if encoder.head is not None:
            raise SettingError("head: InfoCSE has a projector of its own, for training only; set head=false.")
        self.projector = Projector(encoder.dimension, encoder.width).to(encoder.device)
        if not settings.mlm_weight:
            return []
        if encoder.dimension != encoder.width:
            raise SettingError(
                f"mlm_weight: the vector stands for a token, so both must be of one size; {encoder.name} has vectors "
                f"of {encoder.dimension} numbers and tokens of {encoder.width}."
            )
        self.masker = Masker.of(encoder.tokenizer, settings.mlm_rate)
        self.side = SideNetwork(encoder, settings.lower_blocks, settings.side_blocks).to(encoder.device)
        head, remark = language_head(encoder.backbone, encoder.source)
        table: Any = encoder.backbone.get_input_embeddings()  # type: ignore[operator]
        self.words = WordHead(head, table.weight).to(encoder.device)
        return [remark] if remark else []

    def modules(self) -> nn.ModuleDict:
        parts = {"projector": self.projector, "side": self.side, "words": self.words}
        return nn.ModuleDict({name: module for name, module in parts.items() if module is not None})

    def inputs(self, batch: Batch) -> Inputs:
        if len(batch.fields) > 1:
            raise InputError("InfoCSE learns from sentences alone: set data=sentences.")
        rows = [row for row in batch.fields[0] for _ in range(2)]  # both views of a record, one after the other
        passes = {"views": Pass(rows)}
        if self.side is not None:
            masked = [self.masker(row, batch.random) for row in rows]
            passes["masked"] = Pass(
                [ids for ids, _ in masked],
                "side",
                "tokens",
                condition="views",
                chosen=[chosen for _, chosen in masked],
                labels={"targets": rows},
            )
        return Inputs(passes)

    def loss(self, outputs: Outputs, given: Mapping[str, Tensor], modules: Modules) -> Losses:
        projected = modules["projector"](outputs.vectors["views"])
        projected = projected.reshape(-1, 2, projected.shape[-1])  # (batch, 2, width)
        contrastive = info_nce(projected[:, 0], projected[:, 1], temperature=self.settings.temperature)
        if "masked" not in outputs.tokens:
            return Losses(contrastive, {"contrastive": contrastive})
        masked = outputs.tokens["masked"]
        targets = masked.labels["targets"].where(masked.real, NOTHING)
        mlm = masked_language(modules["words"](masked.states), targets) / masked.real.sum().clamp(min=1)
        return Losses(contrastive + self.settings.mlm_weight * mlm, {"contrastive": contrastive, "mlm": mlm})


class _Given(nn.Module):
    """Stands where a backbone embeds its tokens, and gives states that are known already."""

    given: Tensor | None = None

    def forward(self, *ids: Any, **named: Any) -> Tensor:
        assert self.given is not None
        return self.given


def _fresh(backbone: nn.Module, blocks: int) -> nn.Module:
    """A backbone of the same kind with so many blocks, newly drawn, which reads states instead of tokens."""
    config: Any = copy.deepcopy(backbone.config)
    config.num_hidden_layers = blocks
    made = type(backbone)(config)
    if getattr(made, "pooler", None) is not None:
        made.pooler = None  # type: ignore[assignment]
    made.embeddings = _Given()
    return made
