"""Positive candidates for DebCSE: noised, back-translated and paraphrased sentences, by the name of their generator."""

from __future__ import annotations

from nearer.construct.positives.by_name import generator_by_name
from nearer.construct.positives.contract import PositiveGenerator
from nearer.construct.positives.word_frequencies import WordFrequencies

__all__ = ["PositiveGenerator", "WordFrequencies", "generator_by_name"]
