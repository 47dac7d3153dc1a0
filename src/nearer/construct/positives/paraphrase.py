"""Paraphrases by a language model: an instructed causal one, or a seq2seq one made for it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import torch

from nearer.construct.positives.language_model import Generation, LanguageModel
from nearer.construct.positives.noise import Noise, WordFrequencies
from nearer.construct.positives.rewriting import fault, rewritten
from nearer.errors import InputError, SettingError

SENTENCE = "{sentence}"
INSTRUCTION = (
    "Say the following sentence in other words. Keep its meaning and its language. "
    f"Answer with the new sentence alone.\n\nSentence: {SENTENCE}\nIn other words:"
)
QUOTES = {'"': '"', "'": "'", "“": "”", "‘": "’", "„": "“", "«": "»", "「": "」", "『": "』"}


class Paraphraser:
    """Candidates by one model from noised sentences, greedy; variety comes from the noise.

    template: a text with {sentence} where the sentence goes. Without one a causal model gets INSTRUCTION and a
    seq2seq model the bare sentence (some want a prefix such as "paraphrase: {sentence}"). A causal model's chat
    template is put around it where its tokenizer has one. Of an output the first line counts, without quotes around it.
    Masked words are replaced by the tokenizer's mask where a seq2seq model has one (BART), else removed.
    plain_first, beams: as for back-translation.
    """

    name = "paraphrase"

    def __init__(
        self,
        model: str,
        words: WordFrequencies,
        *,
        template: str | None = None,
        device: torch.device | None = None,
        plain_first: bool = False,
        beams: int = 1,
    ) -> None:
        if template is not None and SENTENCE not in template:
            raise SettingError(f"template: has no {SENTENCE}, which stands where the sentence goes.")
        self.model = LanguageModel(model, device, beams=beams)
        self.template = template or (SENTENCE if self.model.sequence_to_sequence else INSTRUCTION)
        self.noise = Noise(words, self.model.tokenizer.mask_token if self.model.sequence_to_sequence else None)
        self.plain_first = plain_first
        self.rejected: Counter[str] = Counter()

    def identity(self) -> dict[str, str]:
        return {
            "generator": self.name,
            "model": self.model.digest,
            "template": self.template,
            "chat template": (self._chat_template or "") and "applied",
            "plain first": str(self.plain_first),
            **self.noise.identity(),
        }

    def candidates(self, sentences: Sequence[str], count: int, seeds: Sequence[int]) -> list[list[str]]:
        return rewritten(
            sentences,
            count,
            seeds,
            noise=self.noise,
            rewrite=self._paraphrased,
            plain_first=self.plain_first,
            rejected=self.rejected,
        )

    def _paraphrased(self, texts: list[str]) -> list[str | None]:
        lengths = map(len, self.model.tokens(texts))
        # a paraphrase twice as long as its sentence is none
        generations = self.model.generate(
            self._prompts(texts), [2 * length + 16 for length in lengths], self._line_ends
        )
        return [self._accepted(generation, text) for generation, text in zip(generations, texts, strict=True)]

    def _accepted(self, generation: Generation, text: str) -> str | None:
        output = cleaned(generation.text, text)
        reason = generation.fault or fault(output, text)
        if reason:
            self.rejected[reason] += 1
        return None if reason else output

    def _prompts(self, texts: list[str]) -> list[list[int]]:
        prompts = [self.template.replace(SENTENCE, text) for text in texts]
        if self._chat_template is None:
            return self.model.tokens(prompts)
        tokenizer: Any = self.model.tokenizer
        turns = [
            tokenizer.apply_chat_template(
                [{"role": "user", "content": prompt}],
                tokenize=False,
                add_generation_prompt=True,
                enable_thinking=False,  # templates that know no thinking ignore it
            )
            for prompt in prompts
        ]
        return self.model.tokens(turns, special=False)  # a chat template writes its own

    @property
    def _chat_template(self) -> str | None:
        return None if self.model.sequence_to_sequence else getattr(self.model.tokenizer, "chat_template", None)

    @cached_property
    def _line_ends(self) -> list[int]:
        """A causal model's tokens with a line break: what comes behind the first line is of no use."""
        if self.model.sequence_to_sequence:
            return []
        vocabulary: dict[str, int] = self.model.tokenizer.get_vocab()  # byte-level BPE writes Ċ, SentencePiece <0x0A>
        return sorted(
            number for token, number in vocabulary.items() if "\n" in token or "Ċ" in token or token == "<0x0A>"
        )


def cleaned(output: str, sentence: str) -> str:
    """The first line, with single spaces, without quotes around it unless the sentence has them too."""
    line = " ".join((output.strip().splitlines() or [""])[0].split())
    while len(line) > 1 and QUOTES.get(line[0]) == line[-1] and not sentence.strip().startswith(line[0]):
        line = line[1:-1].strip()
    return line


def read_template(path: str) -> str:
    """A template from the user's file."""
    try:
        text = Path(path).expanduser().read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(
            f"{path}: the template cannot be read ({getattr(error, 'strerror', None) or error})."
        ) from None
    if SENTENCE not in text:
        raise InputError(f"{path}: the template has no {SENTENCE}, which stands where the sentence goes.")
    return text
