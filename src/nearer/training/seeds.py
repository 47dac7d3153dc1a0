"""The same run with several seeds: a single run proves nothing."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from nearer.runs.config import CONFIG
from nearer.storage.sealed import write_sealed_json
from nearer.training.run import TrainedModel, resume, train


def train_seeds(seeds: Sequence[int], out: str | Path, **arguments: Any) -> tuple[list[TrainedModel], dict[str, str]]:
    """The same run with several seeds, each in its folder under `out`; and mean ± sd of every figure."""
    runs = []
    for seed in seeds:
        folder = Path(out) / f"seed-{seed}"
        if (folder / CONFIG).exists():
            runs.append(resume(folder, progress=arguments.get("progress", False)))
        else:
            settings = {**(arguments.get("settings") or {}), "seed": seed}
            runs.append(train(**{**arguments, "settings": settings, "out": folder}))
    figures = [_figures(run) for run in runs]
    summary = {name: spread([each[name] for each in figures]) for name in figures[0]}
    write_sealed_json(Path(out) / "summary.json", {"seeds": list(seeds), "figures": figures})
    return runs, summary


def spread(values: Sequence[float]) -> str:
    """`75.13 ± 0.21`; one value says nothing of how far others would lie apart."""
    mean = f"{statistics.mean(values):.2f}"
    return mean if len(values) == 1 else f"{mean} ± {statistics.stdev(values):.2f}"


def _figures(run: TrainedModel) -> dict[str, float]:
    figures = {} if run.best_score is None else {"dev": run.best_score}
    if run.scores is None:
        return figures
    averages = run.scores.averages
    means = {"average" if len(averages) == 1 else f"{kind} average": mean for kind, mean in averages.items()}
    return figures | {name: value for name, value in (run.scores.by_name() | means).items() if value is not None}
