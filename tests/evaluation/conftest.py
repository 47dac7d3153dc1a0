"""Miniature STS folders: the real layouts with two pairs where the real sets have hundreds."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from nearer.encoder import EncoderSettings
from nearer.evaluation import sts_sets
from nearer.text import Pair

MINI_YEARS = {
    "STS12": {"MSRvid": 2, "surprise.OnWN": 3},
    "STS13": {"FNWN": 2},
    "STS14": {"images": 2},
    "STS15": {"belief": 2},
    "STS16": {"headlines": 2},
}
MINI_SPLITS = {"train": 4, "dev": 2, "test": 3}


class MiniSts:
    """Knows which pairs a miniature holds, and writes it in any layout."""

    def pairs(self, name: str, count: int) -> list[Pair]:
        return [Pair(f'The "{name}" {n}', f"it's {name}, {n}?", n % 6 + 0.25) for n in range(count)]

    def write(self, root: Path, layout: str) -> Path:
        if layout == "flat":
            root.mkdir()
            for year, subsets in MINI_YEARS.items():
                self.write_flat(root / f"{year}.test.jsonl", [p for s, n in subsets.items() for p in self.pairs(s, n)])
            for split, count in MINI_SPLITS.items():
                self.write_flat(root / f"STS-B.{split}.jsonl", self.pairs(f"STS-B {split}", count))
            self.write_flat(
                root / "SICK-R.all.jsonl", [p for s, n in MINI_SPLITS.items() for p in self.pairs(f"SICK-R {s}", n)]
            )
            return root
        base = root / "STS" if layout == "senteval" else root
        for year, subsets in MINI_YEARS.items():
            prefix = "STS2016" if (year, layout) == ("STS16", "raw") else "STS"
            for subset, count in subsets.items():
                self.write_year(base / f"{year}-en-test", prefix, subset, self.pairs(subset, count))
        for split, (file, count) in sts_sets.BENCHMARK.items():
            self.write_benchmark(base / "STSBenchmark" / file, self.pairs(f"STS-B {split}", count))
        for split, (file, count) in sts_sets.SICK.items():
            self.write_sick(root / "SICK" / file, self.pairs(f"SICK-R {split}", count))
        return root

    def write_flat(self, path: Path, pairs: list[Pair]) -> None:
        rows = ({"sentence1": first, "sentence2": second, "score": score} for first, second, score in pairs)
        path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")

    def write_year(self, folder: Path, prefix: str, subset: str, pairs: list[Pair]) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        inputs = "".join(f"{pair.first}\t{pair.second}\n" for pair in pairs)
        (folder / f"{prefix}.input.{subset}.txt").write_text(inputs, encoding="utf-8")
        (folder / f"{prefix}.gs.{subset}.txt").write_text("".join(f"{p.score}\n" for p in pairs), encoding="utf-8")

    def write_benchmark(self, path: Path, pairs: list[Pair]) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        lines = (f"main\tMSRvid\t2012\t{n:04}\t{p.score}\t{p.first}\t{p.second}\n" for n, p in enumerate(pairs))
        path.write_text("".join(lines), encoding="utf-8")

    def write_sick(self, path: Path, pairs: list[Pair]) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        lines = ["pair_ID\tsentence_A\tsentence_B\trelatedness_score\tentailment_judgment\n"]
        lines += [f"{n}\t{p.first}\t{p.second}\t{p.score}\tNEUTRAL\n" for n, p in enumerate(pairs)]
        path.write_text("".join(lines), encoding="utf-8")


@pytest.fixture
def mini_sts(monkeypatch: pytest.MonkeyPatch) -> MiniSts:
    """The expected counts made small, and the writer of folders that hold so many pairs."""
    for year, subsets in MINI_YEARS.items():
        monkeypatch.setitem(sts_sets.YEARS, year, subsets)
    for splits in (sts_sets.BENCHMARK, sts_sets.SICK):
        for split, count in MINI_SPLITS.items():
            monkeypatch.setitem(splits, split, (splits[split][0], count))
    return MiniSts()


class LengthScorer:
    """A scorer without a model: a sentence's vector holds its length, a pair's score is the difference of the two."""

    name = "lengths"
    settings = EncoderSettings(pooling="mean", max_length=16)

    def __init__(self, score: Callable[[NDArray[np.float64]], NDArray[np.float64]] = lambda scores: scores) -> None:
        self.encoded: list[str] = []
        self.score = score

    def encode(self, sentences: list[str], *, batch_size: int, progress: bool) -> NDArray[np.float32]:
        self.encoded += sentences
        return np.array([[len(sentence)] for sentence in sentences], dtype=np.float32)

    def pair_scores(self, first: NDArray[np.float32], second: NDArray[np.float32]) -> NDArray[np.float64]:
        return self.score(-np.abs(first - second).astype(np.float64)[:, 0])

    def score_matrix(self, first: NDArray[np.float32], second: NDArray[np.float32]) -> NDArray[np.float32]:
        return self.score(-np.abs(first - second.T).astype(np.float64)).astype(np.float32)


@pytest.fixture
def length_scorer() -> type[LengthScorer]:
    return LengthScorer
