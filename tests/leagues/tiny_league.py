"""A tiny league: two methods on a random model, with two trials and two seeds of a few steps."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import yaml

WORDS = """the quick brown fox jumps over a lazy dog and rain comes
until someone has lunch far away""".split()  # noqa: SIM905


def sentences(count: int, seed: int) -> list[str]:
    draw = random.Random(seed)
    return [" ".join(draw.choices(WORDS, k=draw.randint(3, 9))) for _ in range(count)]


def write_pairs(path: Path, seed: int) -> Path:
    draw = random.Random(seed)
    pairs = zip(sentences(24, seed + 1), sentences(24, seed + 2), strict=True)
    path.write_text("".join(f"{first}\t{second}\t{draw.randint(0, 50) / 10}\n" for first, second in pairs))
    return path


def write_labels(path: Path) -> Path:
    """Two classes that are told by their first word."""
    lines = [
        f"{('rain' if number % 2 else 'lunch')} {line}\t{number % 2}" for number, line in enumerate(sentences(30, 5))
    ]
    path.write_text("\n".join(lines) + "\n")
    return path


class Ground:
    """A folder with text and tests, and the league's file, of which single settings can be changed."""

    def __init__(self, folder: Path, model: Path) -> None:
        self.folder = folder
        self.file = folder / "league.yaml"
        self.out = folder / "out"
        (folder / "corpus.txt").write_text("\n".join(dict.fromkeys(sentences(60, 1))) + "\n")
        loop = {"pooling": "mean", "head": False, "learning_rate": 1e-3}
        self.values: dict[str, Any] = {
            "corpus": str(folder / "corpus.txt"),
            "backbones": {"tiny": str(model)},
            "methods": {
                "simcse": {"method": "simcse", "settings": dict(loop), "tune": {"temperature": [0.05, 0.5]}},
                "repeated": {
                    "method": "simcse",
                    "settings": {**loop, "dropout": 0.3},
                    "tune": {"temperature": {"from": 0.01, "to": 1.0, "scale": "log"}},
                },
            },
            "seeds": [0, 1],
            "steps": 3,
            "trials": 2,
            "select_on": [str(write_pairs(folder / "dev.tsv", 10))],
            "evaluate_every": 2,
            "test_on": [
                str(write_pairs(folder / "first.tsv", 20)),
                str(write_pairs(folder / "second.tsv", 30)),
                f"transfer-fast:{write_labels(folder / 'labels.tsv')}",
            ],
            "settings": {"batch_size": 8, "max_length": 12},
        }
        self.write()

    def write(self, **changes: Any) -> Path:
        self.values |= changes
        self.file.write_text(yaml.safe_dump(self.values, sort_keys=False))
        return self.file
