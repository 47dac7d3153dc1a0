"""A model that is a table of vectors, tasks made of few sentences, and commands run as the installed script does."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Callable, Sequence

import numpy as np
import pytest
import typer
from numpy.typing import NDArray

from nearer.analysis import EncodedTask, encode_tasks
from nearer.cli.analyse import analyse
from nearer.cli.main import Commands
from nearer.encoder import EncoderSettings
from nearer.evaluation import PairTask
from nearer.text import Pair

WORDS = ["the", "a", "quick", "brown", "fox", "jumps", "over", "lazy", "dog", "rain", "lunch", "man", "eats", "sleeps"]


class TableModel:
    """A sentence's vector is drawn by its text, around a common centre; two seeds are two models."""

    settings = EncoderSettings(pooling="mean", max_length=16)

    def __init__(self, seed: int = 0, dimension: int = 6, *, table: dict[str, Sequence[float]] | None = None) -> None:
        self.name = f"table {seed}"
        self.seed, self.dimension, self.table = seed, dimension, table
        self.encoded: list[str] = []

    def encode(self, sentences: Sequence[str], *, batch_size: int | None, progress: bool) -> NDArray[np.float32]:
        self.encoded += sentences
        return np.array([self._vector(sentence) for sentence in sentences], dtype=np.float32)

    def _vector(self, sentence: str) -> Sequence[float]:
        if self.table is not None:
            return self.table[sentence]
        digest = hashlib.sha256(f"{self.seed} {sentence}".encode()).digest()
        return (np.random.default_rng(list(digest)).standard_normal(self.dimension) + 0.4).tolist()

    def pair_scores(self, first: NDArray[np.float32], second: NDArray[np.float32]) -> NDArray[np.float64]:
        one, two = (side.astype(np.float64) for side in (first, second))
        lengths = np.linalg.norm(one, axis=1) * np.linalg.norm(two, axis=1)
        return (one * two).sum(axis=1) / np.where(lengths == 0, 1, lengths)

    def score_matrix(self, first: NDArray[np.float32], second: NDArray[np.float32]) -> NDArray[np.float32]:
        raise AssertionError("no analysis asks for all pairs")


@pytest.fixture(scope="session")
def table_model() -> type[TableModel]:
    return TableModel


def random_task(pairs: int = 60, seed: int = 0, name: str = "graded") -> PairTask:
    """Sentences of a few words, some in several pairs, rated from 0 to 5."""
    draw = np.random.default_rng(seed)
    sentences = [" ".join(draw.choice(WORDS, draw.integers(1, 9))) for _ in range(pairs)]
    rows = [
        Pair(sentences[draw.integers(0, pairs)], sentences[draw.integers(0, pairs)], int(draw.integers(0, 51)) / 10)
        for _ in range(pairs)
    ]
    return PairTask(name, "test", "file", {name: rows})


@pytest.fixture(scope="session")
def make_task() -> Callable[..., PairTask]:
    return random_task


@pytest.fixture(scope="session")
def encoded() -> EncodedTask:
    """To be left as it is."""
    return encode_tasks(TableModel(), [random_task()])[0]


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    """`command("MODEL", …)` runs analyse: exit code, standard output, standard error."""
    app = typer.Typer(cls=Commands, pretty_exceptions_enable=False)
    app.command()(analyse)
    app.command()(lambda: None)  # of one command alone Typer makes no group

    def run(*arguments: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["nearer", "analyse", *map(str, arguments)])
        capsys.readouterr()
        with pytest.raises(SystemExit) as caught:
            app()
        captured = capsys.readouterr()
        return int(caught.value.code or 0), captured.out, captured.err

    return run
