"""Ranking tasks built from STS files (RankCSE, A.6): does a sentence's order of its partners follow the gold's?

A sentence x with more than three partners is a query: {x, x^j, y^j}, j = 1 … k, k > 3. The partners are ranked by
their similarity to x. Reported, averaged over the queries: Kendall's correlation (τ-b) with the gold scores, and NDCG
with the gold scores as linear gains.

A sentence may stand in either column. A partner that x is paired with more than once is one partner, with the mean of
its scores. Where all gold scores of a query are equal there is nothing to rank: Kendall's is undefined and any order
has an NDCG of 1, so such queries are left out of both, and counted.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar, NamedTuple

import numpy as np

from nearer.errors import InputError, SettingError
from nearer.evaluation.measures import Values, by_score, kendall, mean_percent, ndcg
from nearer.evaluation.sts_data import STS_KIND, load_pairs
from nearer.evaluation.task import Form, Scorer, SentenceVectors, Task, TaskKind, TaskScore

MORE_THAN = 3  # partners


class RankingQuery(NamedTuple):
    """A sentence, its partners, and the gold score of each."""

    sentence: str
    partners: tuple[str, ...]
    gold: tuple[float, ...]


@dataclass(frozen=True)
class RankingTask(Task):
    """Queries that can be ranked; `equal` more had equal gold scores throughout."""

    kind: ClassVar[str] = "ranking"

    name: str
    split: str
    layout: str
    queries: list[RankingQuery]
    equal: int = 0

    def __post_init__(self) -> None:
        if not self.queries:
            told = f"; {self.equal:,} have, but all their gold scores are equal" if self.equal else ""
            raise InputError(
                f"{self.name}: no sentence has more than {MORE_THAN} partners with different gold scores{told}; "
                "a ranking task cannot be built from it."
            )

    def sentences(self) -> Iterator[str]:
        return (text for query in self.queries for text in (query.sentence, *query.partners))

    def score(self, model: Scorer, vectors: SentenceVectors) -> TaskScore:
        values = self.per_query(model, vectors)
        return self.make_score(
            count=len(self.queries),
            unit="queries",
            measure="kendall",
            figures={name: mean_percent(each) for name, each in values.items()},
            protocol={"partners": f"more than {MORE_THAN}", "kendall": "tau-b", "gains": "linear"},
            details={"partners": sum(len(query.partners) for query in self.queries)},
            dropped=self.equal,
            remark="; ".join(self._remarks(values)),
        )

    def per_query(self, model: Scorer, vectors: SentenceVectors) -> dict[str, Values]:
        """Both figures of each query, as fractions; not a number where one is undefined."""
        kendalls, ndcgs = [], []
        for query in self.queries:
            # (1, partners)
            scores = model.score_matrix(vectors.of([query.sentence]), vectors.of(query.partners))[0].astype(np.float64)
            gold = np.array(query.gold)
            finite = bool(np.isfinite(scores).all())
            tau = kendall(scores, gold) if finite else None
            kendalls.append(np.nan if tau is None else tau)
            ndcgs.append(ndcg(by_score(gold, scores)) if finite and gold.min() >= 0 else np.nan)
        return {"kendall": np.array(kendalls), "ndcg": np.array(ndcgs)}

    def _remarks(self, values: dict[str, Values]) -> Iterator[str]:
        below = sum(min(query.gold) < 0 for query in self.queries)
        if unranked := int(np.isnan(values["kendall"]).sum()):
            yield f"undefined: in {unranked:,} queries all similarities are equal or some are not finite numbers"
        if below:
            yield f"ndcg undefined: {below:,} queries have gold scores below 0, which are no gains"
        if self.equal:
            yield f"{self.equal:,} of {self.equal + len(self.queries):,} queries left out: all gold scores equal"

    def data_hash(self) -> str:
        """A digest of the queries, partners and gold scores in their order."""
        digest = hashlib.sha256()
        for query in self.queries:
            digest.update(json.dumps(query).encode())
        return digest.hexdigest()[:16]


def ranking_of(task: Task) -> RankingTask:
    """The ranking task that the pairs of an STS task hold, its subsets joined."""
    scores: dict[str, dict[str, list[float]]] = {}
    for first, second, score in task.pairs:
        if score is None:  # a task's pairs all have one
            continue
        for sentence, partner in {(first, second): None, (second, first): None}:  # one pair where both are equal
            scores.setdefault(sentence, {}).setdefault(partner, []).append(score)
    found = [
        RankingQuery(sentence, tuple(partners), tuple(sum(given) / len(given) for given in partners.values()))
        for sentence, partners in scores.items()
        if len(partners) > MORE_THAN
    ]
    queries = [query for query in found if min(query.gold) < max(query.gold)]
    return RankingTask(f"{task.name} ranking", task.split, task.layout, queries, len(found) - len(queries))


FORM = "ranking:"


def _load(name: str, data: str | Path | None, strict: bool) -> RankingTask:
    return ranking_of(load_pairs(name.removeprefix(FORM), data))


def _check_pairs(name: str, names: Collection[str]) -> None:
    """Known pairs have names of their own; what else follows the form must be a file."""
    if not name or name.lower() in names or not (Path(name).is_file() or Path(name).suffix):
        sets = [known for known in STS_KIND.known if STS_KIND.known[known].needs_data]
        others = [known for known in STS_KIND.known if known not in sets]
        raise SettingError(
            f"tasks: '{FORM}{name}': a ranking is made of scored pairs: a file of them, {', '.join(others)}, or one of "
            f"{', '.join(sets)}."
        )


def _shown(pairs: str) -> str:
    """`STS-B ranking dev` for `STS-B dev`."""
    set_name, _, split = pairs.rpartition(" ")
    return f"{set_name} ranking {split}" if set_name else ""


RANKING_KIND = TaskKind(
    "ranking",
    _load,
    known={f"{FORM}{name}": replace(known, shown=_shown(known.shown)) for name, known in STS_KIND.known.items()},
    # each of the seven has queries
    groups={group: tuple(f"{FORM}{name}" for name in STS_KIND.groups["sts"]) for group in ("ranking", f"{FORM}sts")},
    forms=(Form(FORM, "NAME", _check_pairs),),
    title="Ranking",
)
