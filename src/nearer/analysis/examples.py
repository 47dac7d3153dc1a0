"""Rankings of single queries by several models beside the gold one (RankCSE, Tables 1 and 11)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from nearer.analysis.ratings import Values
from nearer.errors import InputError
from nearer.evaluation.pair_task import PairTask
from nearer.evaluation.ranking_measures import kendall
from nearer.evaluation.ranking_task import RankingQuery, ranking_of


@dataclass(frozen=True)
class Partner:
    """A sentence that people compared with the query: scores, and its place by each; equal scores share the best."""

    sentence: str
    gold: float
    gold_rank: int
    scores: dict[str, float]
    ranks: dict[str, int]


@dataclass(frozen=True)
class RankingExample:
    """partners: by falling gold score. kendall: each model's correlation (tau-b) with the gold order, −1 to 1."""

    query: str
    partners: tuple[Partner, ...]
    kendall: dict[str, float]


def ranking_examples(task: PairTask, similarities: Mapping[str, Values], *, count: int = 3) -> list[RankingExample]:
    """The `count` queries that the models order most differently, judged by Kendall's correlation with the gold.

    Queries are those of the task's ranking task: sentences with more than three partners, whose gold scores differ.
    similarities: of the task's pairs by each model. Of one model alone, the queries that it orders worst. Equal ones:
    more partners first, then the earlier in the file. Where a model finds all partners equally similar there is no
    order to show, and the query is passed over.
    """
    if not similarities:
        raise InputError("ranking examples: no model given, at least one is needed.")
    pairs = task.pairs
    for name, values in similarities.items():
        if len(values) != len(pairs):
            raise InputError(f"{name}: {len(values):,} similarities for {len(pairs):,} pairs.")
    places: dict[tuple[str, str], int] = {}
    for place, (first, second, _) in enumerate(pairs):
        places.setdefault((first, second), place)
        places.setdefault((second, first), place)
    examples = [_example(query, places, similarities) for query in ranking_of(task).queries]
    found = [
        (-_contrast(example), -len(example.partners), place, example)
        for place, example in enumerate(examples)
        if example is not None
    ]
    return [example for *_, example in sorted(found, key=lambda item: item[:3])[:count]]


def _example(
    query: RankingQuery, places: Mapping[tuple[str, str], int], similarities: Mapping[str, Values]
) -> RankingExample | None:
    rows = [places[query.sentence, partner] for partner in query.partners]
    gold = np.array(query.gold, dtype=np.float64)
    scores = {name: values[rows] for name, values in similarities.items()}
    correlations = {name: kendall(values, gold) for name, values in scores.items()}
    if any(found is None for found in correlations.values()):
        return None
    ranks = {name: _places(values) for name, values in scores.items()}
    gold_ranks = _places(gold)
    return RankingExample(
        query=query.sentence,
        partners=tuple(
            Partner(
                sentence=query.partners[place],
                gold=query.gold[place],
                gold_rank=gold_ranks[place],
                scores={name: float(values[place]) for name, values in scores.items()},
                ranks={name: by_model[place] for name, by_model in ranks.items()},
            )
            for place in np.argsort(-gold, kind="stable").tolist()
        ),
        kendall={name: found for name, found in correlations.items() if found is not None},
    )


def _contrast(example: RankingExample) -> float:
    found = list(example.kendall.values())
    # rounded: which of two equal contrasts comes first must not hang on a last bit
    return round(max(found) - min(found) if len(found) > 1 else -found[0], 9)


def _places(values: Values) -> list[int]:
    """From 1 for the highest; equal ones share the best place, as in the paper's tables."""
    from scipy.stats import rankdata

    places: list[int] = rankdata(-values, method="min").astype(int).tolist()
    return places
