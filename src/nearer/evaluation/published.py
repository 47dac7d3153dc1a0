"""Figures that others published, to stand beside measured ones: those in the five papers' tables, and MTEB's.

A paper's table has its own method and those that it compares with. Rows are read from `bundled/published.tsv`, each
with the table it is from. A published figure is never mixed with measured ones: it carries its source, and its protocol
says on what it can be compared.
"""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cache
from typing import Any

from nearer.encoder.sources import BUNDLED
from nearer.errors import SettingError


@dataclass(frozen=True)
class Published:
    """A row of a published table: scores in percent by task, as they stand there."""

    kind: str  # "sts", "ranking", "reranking", "transfer"
    measure: str
    model: str
    backbone: str
    source: str
    protocol: str
    figures: dict[str, float]
    average: float | None  # as printed; None where the row is incomplete

    @property
    def name(self) -> str:
        return f"{self.model}, {self.backbone}" if self.backbone else self.model

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


@cache
def all_published() -> tuple[Published, ...]:
    with open(BUNDLED / "published.tsv", encoding="utf-8", newline="") as file:
        return tuple(_row(cells) for cells in csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))


def published(
    kind: str,
    *,
    measure: str | None = None,
    backbones: Sequence[str] = (),
    sources: Sequence[str] = (),
    models: Sequence[str] = (),
) -> list[Published]:
    """The rows of a kind of task; of each list that is given, any one must be met.

    sources: by their beginning ("RankCSE", "MTEB"); backbones and models: by name in any case.
    """
    known = {row.kind for row in all_published()}
    if kind not in known:
        raise SettingError(f"published: nothing of the kind {kind!r}; there are {', '.join(sorted(known))}.")
    wanted_backbones, wanted_models = ({name.lower() for name in names} for names in (backbones, models))
    return [
        row
        for row in all_published()
        if row.kind == kind
        and measure in (None, row.measure)
        and (not backbones or row.backbone.lower() in wanted_backbones)
        and (not sources or row.source.startswith(tuple(sources)))
        and (not models or row.model.lower() in wanted_models)
    ]


def _row(cells: dict[str, str]) -> Published:
    figures = dict(part.split("=") for part in cells["figures"].split())
    return Published(
        kind=cells["kind"],
        measure=cells["measure"],
        model=cells["model"],
        backbone=cells["backbone"],
        source=cells["source"],
        protocol=cells["protocol"],
        figures={task: float(figure) for task, figure in figures.items()},
        average=float(cells["average"]) if cells["average"] else None,
    )
