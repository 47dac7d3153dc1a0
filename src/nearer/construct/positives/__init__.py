"""Positive candidates for DebCSE: noised, back-translated and paraphrased sentences, by the name of their generator."""

from __future__ import annotations

from nearer.construct.positives.generators import PositiveGenerator, generator_by_name
from nearer.construct.positives.noise import WordFrequencies

__all__ = ["PositiveGenerator", "WordFrequencies", "generator_by_name"]
