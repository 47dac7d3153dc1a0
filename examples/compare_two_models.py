"""Is one model better than another, or only by chance? Scores with an interval of their difference.

    python examples/compare_two_models.py wiki-mini runs/mine/model --tasks everyday
    python examples/compare_two_models.py A B --tasks sts --data data/senteval

Pairs are resampled a thousand times, the same for both models: where the interval holds 0, the difference is not to be
told from chance.
"""

from __future__ import annotations

import argparse

import nearer
from nearer.analysis.compare import compare
from nearer.errors import PoolingError
from nearer.evaluation import load_tasks


def load(name: str) -> nearer.Encoder | nearer.RankEncoder:
    try:
        return nearer.load_model(name)
    except PoolingError:  # a plain checkpoint, which does not say how its vectors are pooled
        return nearer.load_model(name, pooling="mean")


def main() -> None:
    parser = argparse.ArgumentParser(description="Two models on the same tasks.")
    parser.add_argument("first")
    parser.add_argument("second")
    parser.add_argument("--tasks", default="everyday", help="comma-separated, as for `nearer evaluate`")
    parser.add_argument("--data", help="folder of the published sets; the bundled pairs need none")
    options = parser.parse_args()

    tasks = load_tasks(options.tasks.split(","), options.data)
    found = compare((load(name) for name in (options.first, options.second)), tasks)
    for results in found.results:
        print(results.model, {name: round(score or 0.0, 1) for name, score in results.by_name().items()})
    for difference in found.differences:
        interval = difference.interval
        if interval is None:
            print(f"{difference.task}: {difference.remark}")
            continue
        verdict = "may be chance" if interval.low <= 0 <= interval.high else "more than chance"
        print(f"{difference.task}: {interval.difference:+.1f} ({interval.low:+.1f} to {interval.high:+.1f}), {verdict}")


if __name__ == "__main__":
    main()
