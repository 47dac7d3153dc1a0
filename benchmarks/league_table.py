"""A league's `results.json` as tables for a document: what each method reaches, and how far it is from the others.

python -m benchmarks.league_table runs/league
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.adapt_table import told

RESULTS = "results.json"


def told_seeds(values: Sequence[float | None]) -> str:
    known = [value for value in values if value is not None]
    return told(known, digits=2) if known else "–"


def told_difference(found: Mapping[str, Any] | None) -> str:
    """With its interval, in bold where it is certain."""
    if found is None:
        return ""
    if found["low"] is None:
        return f"{found['difference']:+.2f}"
    with_interval = f"{found['difference']:+.2f} ({found['low']:+.2f} to {found['high']:+.2f})"
    return f"**{with_interval}**" if found["low"] > 0 or found["high"] < 0 else with_interval


def told_tuned(settings: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {value}" for name, value in settings.items())


def write_table(division: Mapping[str, Any]) -> list[str]:
    kinds = list(division["kinds"])
    first = kinds[0]
    head = [
        "method",
        *kinds,
        "by seed",
        "above the baseline",
        "ranks of its seeds",
        "dev",
        "step",
        "chosen of its trials",
    ]
    lines = [f"| {' | '.join(head)} |", f"| {' | '.join(['---'] * len(head))} |"]
    for standing in division["standings"]:
        seeds, rank = standing["seeds"], standing["ranks"].get(first)
        step = standing["step_seconds"]
        cells = [
            standing["method"],
            *(told_seeds([run["averages"].get(kind) for run in seeds]) for kind in kinds),
            ", ".join(f"{run['averages'][first]:.2f}" for run in seeds),
            told_difference(standing["against_baseline"].get(first)),
            "–" if rank is None else f"{rank['best']:g} to {rank['worst']:g}",
            told_seeds([run["dev"] for run in seeds]),
            "–" if step is None else f"{1000 * step:.0f} ms",
            told_tuned(standing["tuned"]),
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return [*lines, *(f"left out: {each['method']} ({'; '.join(each['failures'])})" for each in division["unplaced"])]


def main() -> None:
    [folder] = sys.argv[1:] or [""]
    if not folder or not (Path(folder) / RESULTS).is_file():
        sys.exit("usage: python -m benchmarks.league_table LEAGUE, the --out of nearer league")
    content = json.loads((Path(folder) / RESULTS).read_text(encoding="utf-8"))
    for division in content["divisions"]:
        print(f"## {division['backbone']}", *write_table(division), "", sep="\n")
        print("orders of two seeds (Kendall's τ):", division["seed_agreement"])
        print("orders of two kinds of tests:", division["agreement"])


if __name__ == "__main__":
    main()
