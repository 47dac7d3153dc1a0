"""Candidates by rewriting noised sentences: how often it is tried, and which outputs are of no use.

`BackTranslation` translates a sentence into another language and back (DebCSE, §4.2). `Paraphraser` asks one language
model: an instructed causal one, or a seq2seq one made for it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path
from random import Random
from typing import Any

import torch

from nearer.construct.positives.language_model import Generation, LanguageModel
from nearer.construct.positives.noise import DRAWS, Noise, WordFrequencies, has_word, split
from nearer.errors import InputError, ModelError, SettingError

# Different noise often ends in the same output; so often are those tried again that have too few.
ROUNDS = 3
LONGEST_LOOP = 8
REPEATS = 4

Rewrite = Callable[[list[str]], list[str | None]]


def rewritten(
    sentences: Sequence[str],
    count: int,
    seeds: Sequence[int],
    *,
    noise: Noise,
    rewrite: Rewrite,
    plain_first: bool,
    rejected: Counter[str],
) -> list[list[str]]:
    """Up to `count` outputs for each sentence that differ from it and from each other by more than case and spaces.

    rewrite: outputs for inputs, each by itself; None for one that is of no use (and was counted). plain_first: the
    first input is the sentence as it is. In each of up to ROUNDS rounds as many noised inputs are drawn as candidates
    are missing.
    """
    randoms = [Random(seed) for _, seed in zip(sentences, seeds, strict=True)]
    found: list[dict[str, str]] = [{} for _ in sentences]
    tried: list[set[str]] = [set() for _ in sentences]
    for first in (True, *[False] * (ROUNDS - 1)):
        asked = [
            (index, text)
            for index, sentence in enumerate(sentences)
            if has_word(sentence)
            for text in _inputs(
                sentence, count - len(found[index]), tried[index], noise, randoms[index], first and plain_first
            )
        ]
        if not asked:
            break
        outputs = rewrite([text for _, text in asked])
        for (index, _), output in zip(asked, outputs, strict=True):
            if output is None:
                continue
            key = _comparable(output)
            if key == _comparable(sentences[index]):
                rejected["equal to the sentence"] += 1
            elif key in found[index]:
                rejected["equal to another candidate"] += 1
            else:
                found[index][key] = output
    return [list(texts.values()) for texts in found]


def fault(output: str, sentence: str) -> str | None:
    """Why the output is of no use whatever it means, or None."""
    if not has_word(output):
        return "empty"
    if loops(output) and not loops(sentence):
        return "loops"
    return None


def loops(text: str) -> bool:
    """Whether one to LONGEST_LOOP pieces come REPEATS times in a row."""
    pieces = [piece.strip().casefold() for piece in split(text)[0]]
    for size in range(1, LONGEST_LOOP + 1):
        equal = 0  # pieces in a row that are as the one `size` before
        for earlier, later in zip(pieces, pieces[size:], strict=False):
            equal = equal + 1 if earlier == later else 0
            if equal == size * (REPEATS - 1):
                return True
    return False


def _inputs(sentence: str, number: int, tried: set[str], noise: Noise, random: Random, plain: bool) -> list[str]:
    """New inputs, which join those `tried`; fewer where the sentence has no other noises."""
    inputs = [sentence] if plain and number else []
    for _ in range(DRAWS * number):
        if len(inputs) >= number:
            break
        noised = noise(sentence, random)
        if noised not in tried:
            inputs.append(noised)
            tried.add(noised)
    return inputs


def _comparable(text: str) -> str:
    return " ".join(text.split()).casefold()


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
