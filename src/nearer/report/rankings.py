"""Single queries: how the models order what people compared with them (RankCSE, Table 1)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from nearer.analysis import RankingExample
from nearer.report.markup import Html, cell, element, join, paragraph, section, sentence, table
from nearer.report.measured import Measured
from nearer.report.numbers import figure
from nearer.report.subjects import Subject


def rankings_section(measured: Measured) -> Html:
    if not measured.compared:
        return Html()
    several = len(measured.analysed) > 1
    which = "that the models order most differently" if several else "that the model orders worst"
    opening = paragraph(
        f"The queries {which}, judged by Kendall’s correlation with people’s order. "
        "After each figure comes its place: 1 is the most similar."
    )
    parts = [part for common in measured.compared for part in _examples(common.examples, measured.analysed)]
    parts += [paragraph(common.remark, kind="quiet") for common in measured.compared if common.remark]
    return section("rankings", "Rankings of single queries", opening, *parts)


def _examples(examples: Sequence[RankingExample], subjects: Sequence[Subject]) -> Iterator[Html]:
    for example in examples:
        names = list(example.kendall)  # in the order of the models
        rows = [
            [
                sentence(partner.sentence),
                _placed(partner.gold, partner.gold_rank),
                *(_placed(partner.scores[name], partner.ranks[name], partner.gold_rank) for name in names),
            ]
            for partner in example.partners
        ]
        foot = [["Kendall’s correlation", "", *(_placed(example.kendall[name]) for name in names)]]
        head = ["compared with", "people", *(subject.label for subject in subjects)]
        yield table(join([element("small", "query"), sentence(example.query)], " "), head, rows, foot=foot)


def _placed(score: float, rank: int | None = None, gold_rank: int | None = None) -> Html:
    """A score and its place, if it has one; places that are not people's stand out."""
    elsewhere = gold_rank is not None and rank != gold_rank
    shown = element("b" if elsewhere else "span", "" if rank is None else str(rank), class_="place")
    return cell(figure(score), " ", shown)
