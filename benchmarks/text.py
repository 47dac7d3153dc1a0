"""The text that is trained on or encoded: a file's, or generated with the lengths of Wikipedia's sentences."""

from __future__ import annotations

import itertools
import math
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from nearer.errors import InputError, SettingError
from nearer.storage.cache import CACHE_VARIABLE
from nearer.text import read_sentences

# Tokens of Wikipedia's sentences, [CLS] and [SEP] among them: half have up to 26.8, 37 % reach 32, cut there 25 a mean
MEDIAN_TOKENS, SPREAD = 26.8, 0.436
# Words by their rank in the vocabulary, after Zipf and Mandelbrot
ZIPF_SHIFT = 2.7
SENTENCES_AT_ONCE = 10_000
BEGINNING_WORDS = 8


@dataclass(frozen=True)
class Text:
    """Sentences, and what they are in words."""

    sentences: list[str]
    described: str

    def check_enough(self, wanted: int, setting: str) -> None:
        if wanted > len(self.sentences):
            raise SettingError(
                f"{setting}: {wanted:,} is too large, there are {len(self.sentences):,} sentences ({self.described})."
            )


def corpus_text(source: str | None, count: int, tokenizer: Any) -> Text:
    """The first `count` sentences of a file (fewer if it has no more), or so many generated ones."""
    if source is None:
        return Text(generated(count, tokenizer), "generated, with the lengths of Wikipedia's sentences")
    reading = read_sentences(source)
    sentences = [" ".join(sentence.split()) for sentence in itertools.islice(reading, count)]
    reading.report.check_kept()
    return Text(sentences, f"the beginning of {source}")


def generated(count: int, tokenizer: Any, *, seed: int = 0) -> list[str]:
    """Sentences without sense but with real words, of which the tokenizer makes one token each."""
    vocabulary = tokenizer.get_vocab()
    words = [word for word in sorted(vocabulary, key=vocabulary.__getitem__) if re.fullmatch("[a-z]{2,}", word)]
    if not words:
        raise InputError("the tokenizer has no English words to make text of: name a text with --corpus FILE.")
    rarity = 1 / (np.arange(len(words)) + ZIPF_SHIFT)
    cumulative = np.cumsum(rarity / rarity.sum())
    draw = np.random.default_rng(seed)
    sentences: list[str] = []
    while len(sentences) < count:
        tokens = draw.lognormal(math.log(MEDIAN_TOKENS), SPREAD, min(SENTENCES_AT_ONCE, count - len(sentences)))
        lengths = np.maximum(1, np.rint(tokens).astype(int) - 3)  # without [CLS], [SEP] and the full stop
        drawn_words = np.minimum(np.searchsorted(cumulative, draw.random(lengths.sum())), len(words) - 1)
        drawn = iter([words[number] for number in drawn_words])
        sentences += [" ".join(itertools.islice(drawn, int(length))) + "." for length in lengths]
    return sentences


def write_sentences(sentences: Sequence[str], path: Path) -> Path:
    path.write_text("".join(f"{sentence}\n" for sentence in sentences), encoding="utf-8")
    return path


@contextmanager
def own_cache(folder: Path) -> Iterator[None]:
    """A cache that is empty, so that nothing tokenised before helps, and that leaves the user's as it was."""
    before = os.environ.get(CACHE_VARIABLE)
    os.environ[CACHE_VARIABLE] = str(folder)
    try:
        yield
    finally:
        if before is None:
            del os.environ[CACHE_VARIABLE]
        else:
            os.environ[CACHE_VARIABLE] = before


def mixed(sentences: Sequence[str], *, seed: int = 0) -> list[str]:
    """As many texts of mixed length: of four, one is a sentence's beginning, two are sentences, one is four of them.

    Text n begins as sentence n does, so texts repeat no more than the sentences: repeated ones are encoded once.
    """
    draw = np.random.default_rng(seed)
    kinds = draw.integers(0, 4, len(sentences)).tolist()
    others = draw.integers(0, len(sentences), (len(sentences), 3)).tolist()
    texts = []
    for sentence, kind, more in zip(sentences, kinds, others, strict=True):
        if kind == 0:
            texts.append(" ".join(sentence.split()[:BEGINNING_WORDS]))
        elif kind == 1:
            texts.append(" ".join([sentence, *(sentences[index] for index in more)]))
        else:
            texts.append(sentence)
    return texts
