"""The table of `benchmarks/adapt_domains.sh`: by labels, what adapt chose, its encoder alone, and what else there is.

python -m benchmarks.adapt_table OUT
"""

from __future__ import annotations

import json
import re
import statistics
import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from nearer.adaptation.tournament import BASE, Contender

RESULTS = "results.json"
SEED = re.compile(r"(.+)-(\d+)")


def told(values: Sequence[float], digits: int = 1) -> str:
    """Mean ± standard deviation, or the one value."""
    if len(values) < 2:
        return f"{values[0]:.{digits}f}"
    return f"{statistics.fmean(values):.{digits}f} ± {statistics.stdev(values):.{digits}f}"


def read_adapted(out: Path) -> dict[str, list[dict[str, Any]]]:
    """By the name of a collection (with -log where there was one), the results of all seeds."""
    found: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for path in sorted(out.glob(f"*/{RESULTS}")):
        named = SEED.fullmatch(path.parent.name)
        results = json.loads(path.read_text(encoding="utf-8"))
        if named and results["labels"] is not None:
            found[named[1]].append(results)
    return dict(found)


def read_scores(out: Path) -> dict[str, list[float]]:
    """By name, NDCG@10 of encoders that were scored by labels alone."""
    found: dict[str, list[float]] = defaultdict(list)
    for path in sorted(out.glob("*.json")):
        named = SEED.fullmatch(path.stem)
        scores = json.loads(path.read_text(encoding="utf-8"))["scores"]
        found[named[1] if named else path.stem].append(float(scores[0]["score"]))
    return dict(found)


def rows_of(results: Sequence[Mapping[str, Any]]) -> dict[str, list[float]]:
    """By what a row shows, one value for each seed."""
    rows: dict[str, list[float]] = defaultdict(list)
    for one in results:
        labels = one["labels"]
        value = {Contender(**each["contender"]): each["by_test"]["labels"] for each in labels["standings"]}
        rows["base"].append(value[Contender(BASE)])
        rows["chosen set-up"].append(labels["chosen"]["by_test"]["labels"])
        rows["its gain"].append(labels["chosen"]["gain"])
        rows["best of all set-ups by labels"].append(max(value.values()))
        for contender, score in value.items():
            if contender.is_alone and contender.encoder != BASE:
                who = "teacher" if contender.teacher else "student"
                rows[f"{who} {contender.encoder} alone"].append(score)
        for name, what in (("refit", "chosen set-up"), ("refit_alone", "its encoder alone")):
            if labels.get(name):
                rows[f"{what}, trained again on all documents"].append(labels[name]["by_test"]["labels"])
        for judge, score in labels["judges"].items():
            rows[f"judge {judge}"].append(score)
        if labels["correlation"] is not None:
            rows["100 × Spearman of tests and labels"].append(100 * labels["correlation"])
        rows["seconds"].append(one["seconds"])
    return dict(rows)


def write_table(out: Path) -> list[str]:
    lines = []
    for name, results in read_adapted(out).items():
        lines += [f"## {name}, {len(results)} seeds", "| | NDCG@10 |", "| --- | --- |"]
        lines += [f"| {row} | {told(values)} |" for row, values in rows_of(results).items()]
        chosen = [Contender(**one["labels"]["chosen"]["contender"]).name for one in results]
        lines += [f"| chosen | {'; '.join(chosen)} |", ""]
    scores = read_scores(out)
    if scores:
        lines += ["## encoders alone", "| | NDCG@10 |", "| --- | --- |"]
        lines += [f"| {name} | {told(values)} |" for name, values in scores.items()]
    return lines


def main() -> None:
    [folder] = sys.argv[1:] or [""]
    lines = write_table(Path(folder)) if folder else []
    if not lines:
        sys.exit("usage: python -m benchmarks.adapt_table OUT, the folder of benchmarks/adapt_domains.sh")
    print("\n".join(lines))


if __name__ == "__main__":
    main()
