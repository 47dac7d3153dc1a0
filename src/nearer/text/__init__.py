"""Reading text, and keeping it tokenised. Knows nothing of models."""

from nearer.text.faults import Fault, ReadReport
from nearer.text.reading import (
    Reading,
    ReadOptions,
    read_debiased,
    read_pairs,
    read_ranking_lists,
    read_sentences,
    read_triplets,
)
from nearer.text.records import DebiasedSample, Pair, RankingList, Triplet

__all__ = [
    "DebiasedSample",
    "Fault",
    "Pair",
    "RankingList",
    "ReadOptions",
    "ReadReport",
    "Reading",
    "Triplet",
    "read_debiased",
    "read_pairs",
    "read_ranking_lists",
    "read_sentences",
    "read_triplets",
]
