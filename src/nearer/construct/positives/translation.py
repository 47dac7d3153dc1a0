"""Back-translation: a noised sentence into another language and back (DebCSE, §4.2)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import torch

from nearer.construct.positives.language_model import LanguageModel
from nearer.construct.positives.noise import Noise, WordFrequencies
from nearer.construct.positives.rewriting import fault, rewritten
from nearer.errors import ModelError


class BackTranslation:
    """Candidates by two translation models, there and back: Marian's, or other seq2seq models that need no prefix.

    there, back: names or folders. Whether the second takes the first's language cannot be told from the models, and is
    not checked. Masked words are removed, since translation models know no mask. Deterministic: variety comes from the
    noise. plain_first: the first input is the sentence without noise. beams: 1 is greedy, more is slower and a little
    more fluent.
    """

    name = "back-translation"

    def __init__(
        self,
        there: str,
        back: str,
        words: WordFrequencies,
        *,
        device: torch.device | None = None,
        plain_first: bool = False,
        beams: int = 1,
    ) -> None:
        self.models = [LanguageModel(name, device, beams=beams) for name in (there, back)]
        for model in self.models:
            if not model.sequence_to_sequence:
                raise ModelError(f"{model.name}: is a causal LM; back-translation needs two translation models.")
        self.noise = Noise(words)
        self.plain_first = plain_first
        self.rejected: Counter[str] = Counter()

    def identity(self) -> dict[str, str]:
        there, back = (model.digest for model in self.models)
        return {
            "generator": self.name,
            "there": there,
            "back": back,
            "plain first": str(self.plain_first),
            **self.noise.identity(),
        }

    def candidates(self, sentences: Sequence[str], count: int, seeds: Sequence[int]) -> list[list[str]]:
        return rewritten(
            sentences,
            count,
            seeds,
            noise=self.noise,
            rewrite=self._there_and_back,
            plain_first=self.plain_first,
            rejected=self.rejected,
        )

    def _there_and_back(self, texts: list[str]) -> list[str | None]:
        there, back = self.models
        foreign = self._translated(there, texts)
        arrived = [index for index, text in enumerate(foreign) if text is not None]
        returned = self._translated(back, [text for text in foreign if text is not None])
        results: list[str | None] = [None] * len(texts)
        for index, text in zip(arrived, returned, strict=True):
            results[index] = text
        return results

    def _translated(self, model: LanguageModel, texts: list[str]) -> list[str | None]:
        inputs = model.tokens(texts)
        results: list[str | None] = []
        for text, generation in zip(texts, model.generate(inputs, [_limit(ids) for ids in inputs]), strict=True):
            reason = generation.fault or fault(generation.text, text)
            if reason:
                self.rejected[reason] += 1
            results.append(None if reason else " ".join(generation.text.split()))
        return results


def _limit(ids: list[int]) -> int:
    """No translation is longer than that, only one that does not end."""
    return 2 * len(ids) + 16
