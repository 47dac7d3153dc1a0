"""ESimCSE: the second view of a sentence has some tokens twice, and vectors of earlier batches are negatives too.

L = InfoNCE(h_i, h_i⁺) with a queue of negatives. Views of one length teach a model that length is meaning;
repeated tokens break that. The queue's vectors are those of an encoder that follows the trained one.

What the released code does otherwise: it repeats fewer tokens (`variant: released`), empties the queue at each epoch,
puts the trained head behind the following encoder, and starts that encoder from random weights. The last is a mistake
and not to be had here; the others make no difference in one epoch.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import ConfigDict, Field
from torch import Tensor, nn

from nearer.encoder import Encoder
from nearer.errors import InputError, SettingError
from nearer.methods.bounds import Temperature
from nearer.methods.contract import Batch, Inputs, Losses, Method, Modules, Outputs, Pass, RecordForm
from nearer.methods.facts import MethodFacts, Paper
from nearer.methods.momentum_queue import LARGEST_QUEUE, MomentumQueue, QueueSettings
from nearer.objectives import info_nce
from nearer.text.augmentation import MOST_REPEATED, Augmenter
from nearer.text.reading import Reading

FEWEST = 2  # tokens that the paper lets be repeated at most, however short the sentence
SHORTEST = 4  # tokens of a record


class ESimCSESettings(QueueSettings):
    """What an ESimCSE recipe can set beside the loop's settings."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    temperature: Temperature = Field(0.05, description="τ: the smaller, the more the nearest negatives count")
    repetition_rate: float = Field(
        0.32, ge=0, lt=1, description="the most of a sentence's tokens that stand twice in its second view; 0: none"
    )
    repetition_room: int = Field(
        0, ge=0, description="tokens of max_length that are kept for repeated ones, so that cut sentences have some too"
    )
    queue_size: int = Field(
        160, ge=0, le=LARGEST_QUEUE, description="vectors of earlier batches that are negatives too; 0: none"
    )
    variant: Literal["paper", "released"] = Field(
        "paper",
        description="how many tokens are repeated at most; paper: max(2, rate · tokens), released: below "
        f"min({MOST_REPEATED}, rate · tokens)",
    )


FACTS = MethodFacts(
    name="esimcse",
    title="ESimCSE",
    what="As SimCSE, with some tokens of the second view repeated, and vectors of earlier batches as more negatives.",
    needs="sentences",
    paper=Paper(
        "wu2022esimcse",
        "ESimCSE: Enhanced Sample Building Method for Contrastive Learning of Unsupervised Sentence Embedding",
        ("Wu, Xing", "Gao, Chaochen", "Zang, Liangjun", "Han, Jizhong", "Wang, Zhongyuan", "Hu, Songlin"),
        "Proceedings of the 29th International Conference on Computational Linguistics",
        2022,
    ),
    data=("sentences",),
)


class ESimCSE(Method):
    """The method as the loop sees it."""

    facts = FACTS
    Settings = ESimCSESettings
    settings: ESimCSESettings
    queue: MomentumQueue | None = None

    def relies_on_dropout(self, data: str) -> bool:
        return not self.settings.repetition_rate

    def record_form(self, encoder: Encoder, reading: Reading[Any], max_length: int) -> RecordForm:
        room = self.settings.repetition_room
        if max_length - room < SHORTEST:
            raise SettingError(f"repetition_room: {room} of max_length={max_length} leaves no room for sentences.")
        return RecordForm(max_length - room, setting="max_length less repetition_room" if room else "max_length")

    def prepare(
        self,
        encoder: Encoder,
        reading: Reading[Any] | None = None,
        *,
        max_length: int | None = None,
        progress: bool = False,
    ) -> list[str]:
        settings, template = self.settings, encoder.settings.template
        self.augmenter = Augmenter(
            "word_repetition" if settings.repetition_rate else "none",
            settings.repetition_rate,
            encoder.tokenizer,
            around=None if template is None else (len(template.before), len(template.after)),
            longest=max_length,
            most=self._most_repeated,
        )
        if settings.queue_size:
            self.queue = MomentumQueue(settings, encoder)
        return []

    def modules(self) -> nn.ModuleDict:
        return nn.ModuleDict({} if self.queue is None else self.queue.modules())

    def inputs(self, batch: Batch) -> Inputs:
        if len(batch.fields) > 1:
            raise InputError("ESimCSE learns from sentences alone: set data=sentences.")
        rows = batch.fields[0]
        repeated = [self.augmenter(ids, batch.random) for ids in rows]
        queued = {} if self.queue is None else self.queue.passes(rows)
        return Inputs({"anchors": Pass(rows), "positives": Pass(repeated), **queued})

    def loss(self, outputs: Outputs, given: Mapping[str, Tensor], modules: Modules) -> Losses:
        vectors = outputs.vectors
        contrastive = info_nce(
            vectors["anchors"],
            vectors["positives"],
            temperature=self.settings.temperature,
            more_negatives=None if self.queue is None else self.queue.negatives(),
        )
        kept = {} if self.queue is None else self.queue.kept(vectors)
        return Losses(contrastive, {"contrastive": contrastive}, kept)

    def remember(self, kept: Mapping[str, Tensor]) -> None:
        assert self.queue is not None
        self.queue.remember(kept)

    def _most_repeated(self, tokens: int) -> int:
        """Of a sentence's tokens without the special ones."""
        rate = self.settings.repetition_rate
        if self.settings.variant == "released":  # which counts both special tokens, and leaves the upper end out
            return max(0, min(MOST_REPEATED, int(rate * (tokens + 2))) - 1)
        return min(tokens, max(FEWEST, int(rate * tokens)))
