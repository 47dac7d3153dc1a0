"""PCL: many coarse edits of a sentence are its positives as a group, and a second network learns beside the first.

L = Σ over both networks [ InfoNCE(z_1, z_2) + group contrast ] + agreement within + agreement across.
A sentence passes as it is, once more, and in edited forms (shuffled, reversed, some tokens deleted, some inserted).
Both networks start from the same checkpoint; each group's similarities are to be spread alike by both. Only the first
is saved.

Assumed, since only the released code could be read: the group's contrast is the mean over its positives of
− log softmax, and agreement is a KL over the list. The code (`variant: released`) puts a sigmoid on the softmax and
takes means over all entries. Its second network does not mask padding, which is a mistake and cannot be had here; the
head, which both share there, is each network's own.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any, Literal

import torch
from pydantic import BaseModel, ConfigDict, Field
from torch import Tensor, nn

from nearer.encoder import Encoder
from nearer.errors import InputError
from nearer.methods.bounds import Temperature, Weight
from nearer.methods.contract import Batch, Inputs, Losses, Method, Modules, Outputs, Pass
from nearer.methods.facts import MethodFacts, Paper
from nearer.objectives import agreement, group_contrast, group_logits, info_nce
from nearer.text.reading import Reading
from nearer.text.token_edits import Edit, edit_tokens

EDITS: list[Edit] = ["shuffle", "reverse", "delete", "insert"]


class PCLSettings(BaseModel):
    """What a PCL recipe can set beside the loop's settings."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    temperature: Temperature = Field(0.05, description="τ: the smaller, the more the nearest negatives count")
    edits: list[Edit] = Field(
        default_factory=lambda: [*EDITS, *EDITS],
        max_length=32,
        description="the further views of a sentence; each is one more row to encode, by both networks",
    )
    edit_rate: float = Field(0.2, gt=0, lt=1, description="share of the tokens that delete and insert change")
    group_weight: Weight = Field(1.0, description="weight of the contrast of a sentence's whole group of views")
    agreement_weight: Weight = Field(1.0, description="weight of both networks' agreement; 0: there is no second one")
    variant: Literal["paper", "released"] = Field(
        "paper", description="released: a sigmoid on the softmax, and means over all entries"
    )


FACTS = MethodFacts(
    name="pcl",
    title="PCL",
    what="Many edits of a sentence are its positives together, and a second network that learns beside has to agree.",
    needs="sentences",
    paper=Paper(
        "wu2022pcl",
        "PCL: Peer-Contrastive Learning with Diverse Augmentations for Unsupervised Sentence Embeddings",
        ("Wu, Qiyu", "Tao, Chongyang", "Shen, Tao", "Xu, Can", "Geng, Xiubo", "Jiang, Daxin"),
        "Proceedings of the 2022 Conference on Empirical Methods in Natural Language Processing",
        2022,
    ),
    data=("sentences",),
    views=10,
)


class PCL(Method):
    """The method as the loop sees it."""

    facts = FACTS
    Settings = PCLSettings
    settings: PCLSettings
    peer: Encoder | None = None
    longest = 0

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
        self.longest = max_length or encoder.settings.max_length
        if self.settings.agreement_weight:
            self.peer = copy.deepcopy(encoder)
        return []

    def modules(self) -> nn.ModuleDict:
        return nn.ModuleDict({} if self.peer is None else {"peer": self.peer})

    def inputs(self, batch: Batch) -> Inputs:
        if len(batch.fields) > 1:
            raise InputError("PCL learns from sentences alone: set data=sentences.")
        settings, rows = self.settings, []
        for ids in batch.fields[0]:
            edited = [edit_tokens(ids, edit, settings.edit_rate, self.longest, batch.random) for edit in settings.edits]
            rows += [ids, ids, *edited]
        passes = {"views": Pass(rows)}
        if self.peer is not None:
            passes["peers"] = Pass(rows, "peer")
        return Inputs(passes)

    def loss(self, outputs: Outputs, given: Mapping[str, Tensor], modules: Modules) -> Losses:
        settings, count = self.settings, 2 + len(self.settings.edits)
        # of each network (batch, views, dimension)
        networks = [vectors.view(-1, count, vectors.shape[-1]) for vectors in outputs.vectors.values()]
        groups = [self._group(views, views) for views in networks]
        plain = [info_nce(views[:, 0], views[:, 1], temperature=settings.temperature) for views in networks]
        grouped = [group_contrast(logits, count - 1, variant=settings.variant) for logits in groups]
        contrastive, group = torch.stack(plain).sum(), torch.stack(grouped).sum()
        parts = {"contrastive": contrastive, "group": group}
        total = contrastive + settings.group_weight * group
        if self.peer is not None:
            first, second = networks
            within = agreement(groups[1], groups[0], variant=settings.variant)
            across = agreement(self._group(second, first), self._group(first, second), variant=settings.variant)
            parts["agreement"] = within + across
            total = total + settings.agreement_weight * parts["agreement"]
        return Losses(total, parts)

    def _group(self, anchors: Tensor, others: Tensor) -> Tensor:
        """One network's first views against another's further views, and its first views of other sentences."""
        return group_logits(anchors[:, 0], others[:, 1:], others[:, 0], temperature=self.settings.temperature)
