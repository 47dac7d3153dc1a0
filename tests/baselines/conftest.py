"""A tiny encoder, a file of word vectors, and commands run as the installed script does."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import typer
from word_file import VECTORS

from nearer.cli.baselines import flow, static_words, whiten
from nearer.cli.main import Commands
from nearer.encoder import Encoder


@pytest.fixture
def glove(tmp_path: Path) -> Path:
    path = tmp_path / "glove.txt"
    path.write_text("".join(f"{word} {' '.join(map(str, vector))}\n" for word, vector in VECTORS.items()), "utf-8")
    return path


@pytest.fixture(scope="session")
def encoder(tiny_model: Callable[[str], Path]) -> Encoder:
    """To be left as it is."""
    return Encoder.load(tiny_model("bert"), pooling="mean", device="cpu")


@pytest.fixture(scope="session")
def texts() -> list[str]:
    words = ["man", "lunch", "rain", "fox", "dog", "evening", "meal", "quick", "lazy", "far"]
    return [f"{one} is {two} and {three}" for one in words for two in words[:5] for three in words[5:8]]


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str]]:
    """`command("whiten", …)`: exit code and standard error."""
    app = typer.Typer(cls=Commands, pretty_exceptions_enable=False)
    app.command()(whiten)
    app.command()(flow)
    app.command()(static_words)

    def run(*arguments: object) -> tuple[int, str]:
        monkeypatch.setattr(sys, "argv", ["nearer", *map(str, arguments)])
        capsys.readouterr()
        with pytest.raises(SystemExit) as caught:
            app()
        return int(caught.value.code or 0), capsys.readouterr().err

    return run
