"""A method of your own beside SimCSE: the same text, steps, tuning and tests for both, and a page of what differs.

    python examples/own_method_in_the_league.py mine.txt --out runs/league

`Shorter` stands in this file, outside of nearer. The league imports it by its path, and tunes it as often as SimCSE.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import yaml
from torch import Tensor

import nearer
from nearer.methods import Batch, Inputs, Losses, Method, MethodFacts, Modules, Outputs, Paper, Pass, SimCSESettings
from nearer.objectives import info_nce


class Shorter(Method):
    """A sentence is to be near to itself without its last third, and far from the others."""

    paper = Paper("you2026", "Shorter", ("You, Yourself",), "An Example", 2026)
    facts = MethodFacts("shorter", "Shorter", "Near to its own beginning.", "sentences", paper, data=("sentences",))
    Settings = SimCSESettings
    settings: SimCSESettings

    def inputs(self, batch: Batch) -> Inputs:
        rows = batch.fields[0]
        beginnings = [np.concatenate([ids[: max(1, 2 * len(ids) // 3)], ids[-1:]]) for ids in rows]
        return Inputs({"whole": Pass(rows), "beginning": Pass(beginnings)})

    def loss(self, outputs: Outputs, given: Mapping[str, Tensor], modules: Modules) -> Losses:
        vectors = outputs.vectors
        total = info_nce(vectors["whole"], vectors["beginning"], temperature=self.settings.temperature)
        return Losses(total, {"contrastive": total})


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Your own method in a league with SimCSE.")
    parser.add_argument("text")
    parser.add_argument("--out", default="runs/league")
    parser.add_argument("--steps", type=int, default=50)
    given = parser.parse_args()
    entry = {"recipe": "simcse-wiki-mini", "tune": {"temperature": [0.03, 0.1], "learning_rate": [1e-5, 5e-5]}}
    own = {**entry, "method": f"{Path(__file__).stem}:Shorter"}  # package.module:Class
    league = {"corpus": given.text, "backbones": ["wiki-mini"], "methods": {"simcse": entry, "shorter": own}}
    league |= {"seeds": [0, 1], "trials": 2, "steps": given.steps, "evaluate_every": max(1, given.steps // 5)}
    league |= {"select_on": "held-out", "held_out": 16, "test_on": "everyday"}
    league |= {"settings": {"batch_size": 16, "max_length": 32}}
    file = Path(f"{given.out}.yaml")
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(yaml.safe_dump(league, sort_keys=False))
    for standing in nearer.league(file, given.out, say=print).divisions[0].standings:
        averages = [round(run.averages["sts"] or 0.0, 2) for run in standing.seeds]
        print(f"{standing.method}: {averages} on everyday pairs, seed by seed, with {standing.tuned}")
