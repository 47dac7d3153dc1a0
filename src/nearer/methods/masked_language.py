"""Masked language modelling beside another loss, for any method: masked copies of its rows pass the encoder as well."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from nearer.encoder import Encoder
from nearer.encoder.language_head import LanguageHead, language_head
from nearer.methods.contract import Batch, Ids, Modules, Outputs, Pass
from nearer.objectives import masked_language
from nearer.objectives.masked_language import NOTHING
from nearer.text.augmentation import Masker

PASS, MODULE = "masked", "language_head"


class MaskedLanguage:
    """The head, the masks and the loss. The method names the head among its modules as `language_head`."""

    head: LanguageHead

    def __init__(self, rate: float) -> None:
        self.rate = rate

    def prepare(self, encoder: Encoder) -> list[str]:
        """Returns remarks for the user."""
        self.masker = Masker.of(encoder.tokenizer, self.rate)
        self.head, remark = language_head(encoder.backbone, encoder.source)
        self.head.to(encoder.device)
        return [remark] if remark else []

    def masked(self, copies: Sequence[Ids], batch: Batch) -> Pass:
        """Every copy is masked for itself and passes the encoder a second time."""
        masked = [self.masker(ids, batch.random) for ids in copies]
        return Pass(
            [ids for ids, _ in masked],
            wanted="tokens",
            chosen=[chosen for _, chosen in masked],
            labels={"targets": copies},
        )

    def loss(self, outputs: Outputs, modules: Modules) -> Tensor:
        """The mean over all masked tokens."""
        masked = outputs.tokens[PASS]
        targets = masked.labels["targets"].where(masked.real, NOTHING)
        logits = modules[MODULE](masked.states, modules.word_embeddings)
        return masked_language(logits, targets) / masked.real.sum().clamp(min=1)
