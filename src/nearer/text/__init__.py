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
from nearer.text.records import DebiasedSample, LabelledPair, Pair, RankingList, ScoredList, Triplet
from nearer.text.scored_list_files import write_lists

__all__ = [
    "DebiasedSample",
    "Fault",
    "LabelledPair",
    "Pair",
    "RankingList",
    "ReadOptions",
    "ReadReport",
    "Reading",
    "ScoredList",
    "Triplet",
    "read_debiased",
    "read_pairs",
    "read_ranking_lists",
    "read_sentences",
    "read_triplets",
    "write_lists",
]
