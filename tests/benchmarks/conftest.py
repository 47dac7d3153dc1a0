"""A model and sentences to measure with, and `nearer bench` run in this process."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from benchmarks.models import random_model
from nearer.cli.main import main

WORDS = "rain comes far away while someone has lunch and a quick brown fox jumps over the lazy dog".split()  # noqa: SIM905


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return random_model("tiny", tmp_path_factory.mktemp("bench") / "model")


@pytest.fixture(scope="session")
def layout(tiny: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tiny model as sentence-transformers wants it."""
    from nearer.encoder import Encoder

    folder = tmp_path_factory.mktemp("bench") / "layout"
    Encoder.load(tiny, pooling="cls", max_length=16).save(folder)
    return folder


@pytest.fixture(scope="session")
def lines() -> list[str]:
    return [f"{a} {b} {c}." for a in WORDS[:6] for b in WORDS[6:12] for c in WORDS[12:16]]


class Outcome(NamedTuple):
    code: int
    out: str
    err: str


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., Outcome]:
    """`bench("train", …)`: the exit code and what was printed."""

    def run(*arguments: object) -> Outcome:
        monkeypatch.setattr("sys.argv", ["nearer", "bench", *map(str, arguments)])
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
        capsys.readouterr()
        with pytest.raises(SystemExit) as caught:
            main()
        captured = capsys.readouterr()
        return Outcome(int(caught.value.code or 0), captured.out, captured.err)

    return run
