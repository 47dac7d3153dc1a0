"""Chooses among triplets with scores (`nearer construct triplets --curate`) by other thresholds than theirs.

    python -m benchmarks.curate_triplets scored/data.jsonl curated.jsonl --alpha 3 --beta 3 --gap 1 --count 30000

One generation then serves every choice of thresholds. `--all` takes the triplets as they are.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from pathlib import Path
from typing import Any

from nearer.construct.triplet_rules import Curation
from nearer.errors import InputError


def curate(source: Path, out: Path, curation: Curation | None, count: int | None) -> Counter[str]:
    """Writes the first `count` that are kept; returns how many were, and why others were not."""
    told: Counter[str] = Counter()
    with open(source, encoding="utf-8") as lines, open(out, "w", encoding="utf-8") as kept:
        for number, line in enumerate(lines, 1):
            if count is not None and told["kept"] == count:
                break
            record: dict[str, Any] = json.loads(line)
            if curation is not None:
                if "scores" not in record:
                    raise InputError(f"{source}: line {number} has no scores; construct it with --curate.")
                positive, negative = record["scores"]
                if curation.swaps(positive, negative):
                    told["swapped"] += 1
                    positive, negative = negative, positive
                    record["positive"], record["hard_negative"] = record["hard_negative"], record["positive"]
                if fault := curation.fault(positive, negative):
                    told[fault] += 1
                    continue
            told["kept"] += 1
            kept.write(json.dumps(record, ensure_ascii=False) + "\n")
    return told


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--alpha", type=float, default=3.0)
    parser.add_argument("--beta", type=float, default=3.0)
    parser.add_argument("--gap", type=float, default=1.0)
    parser.add_argument("--no-swap", action="store_true")
    parser.add_argument("--count", type=int)
    parser.add_argument("--all", action="store_true", help="no thresholds: only count")
    asked = parser.parse_args()
    curation = None if asked.all else Curation(asked.alpha, asked.beta, asked.gap, not asked.no_swap)
    for name, number in curate(asked.source, asked.out, curation, asked.count).most_common():
        print(f"{asked.out}: {number:,} {name}")


if __name__ == "__main__":
    main()
