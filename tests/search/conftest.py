"""A tiny encoder, a text with an index of it, and commands run as the installed script does."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest
from search_text import sentences, write_lines

from nearer.cli.main import main
from nearer.encoder import Encoder
from nearer.search import SearchIndex, building


class Outcome(NamedTuple):
    code: int
    out: str
    err: str

    @property
    def error(self) -> str:
        """The one line that says what went wrong."""
        [line] = [line for line in self.err.splitlines() if line.startswith("error: ")]
        assert self.code == 1
        assert self.err.splitlines()[-1] == line
        return line.removeprefix("error: ")


@pytest.fixture(scope="session")
def encoder(tiny_model: Callable[[str], Path]) -> Encoder:
    """To be left as it is."""
    return Encoder.load(tiny_model("bert"), pooling="mean", device="cpu")


@pytest.fixture(autouse=True)
def _small_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that a text of some dozen sentences has several."""
    monkeypatch.setattr(building, "WINDOW_ON_CPU", 16)


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    """The last sentences are there twice, and in one window, where equal ones get equal vectors to the bit."""
    lines = sentences(54, 1)
    return write_lines(tmp_path / "corpus.txt", [*lines, *lines[-6:]])


@pytest.fixture
def more(tmp_path: Path) -> Path:
    return write_lines(tmp_path / "more.txt", sentences(40, 2))


@pytest.fixture
def index(encoder: Encoder, corpus: Path, tmp_path: Path) -> SearchIndex:
    return SearchIndex.build(encoder, corpus, tmp_path / "index")


@pytest.fixture
def nearer(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., Outcome]:
    """`nearer("search", …)`: the exit code and what was printed."""

    def run(*arguments: object) -> Outcome:
        monkeypatch.setattr("sys.argv", ["nearer", *map(str, arguments)])
        capsys.readouterr()
        with pytest.raises(SystemExit) as caught:
            main()
        captured = capsys.readouterr()
        return Outcome(int(caught.value.code or 0), captured.out, captured.err)

    return run
