"""Running commands in this process, as the installed script does."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from nearer.cli.main import main
from nearer.encoder import Encoder


class Outcome(NamedTuple):
    code: int
    out: str
    err: str

    @property
    def error(self) -> str:
        """The one line that says what went wrong."""
        [line] = [line for line in self.err.splitlines() if line.startswith("error: ")]
        assert "Traceback" not in self.err
        assert self.code == 1
        assert self.err.splitlines()[-1] == line
        return line.removeprefix("error: ")


@pytest.fixture
def nearer(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., Outcome]:
    """`nearer("rank", …)`: the exit code and what was printed."""

    def run(*arguments: object) -> Outcome:
        monkeypatch.setattr("sys.argv", ["nearer", *map(str, arguments)])
        monkeypatch.setattr("__main__.__package__", "")  # else `python -m pytest` is what usage lines name
        capsys.readouterr()
        with pytest.raises(SystemExit) as caught:
            main()
        captured = capsys.readouterr()
        return Outcome(int(caught.value.code or 0), captured.out, captured.err)

    return run


@pytest.fixture
def model(tiny_model: Callable[[str], Path]) -> Path:
    """A plain checkpoint: it does not say how it is pooled."""
    return tiny_model("bert")


@pytest.fixture
def encoder(model: Path) -> Encoder:
    return Encoder.load(model, pooling="mean", device="cpu")


@pytest.fixture
def pooled(encoder: Encoder, tmp_path: Path) -> Path:
    """The same model, saved with its pooling."""
    encoder.save(tmp_path / "pooled")
    return tmp_path / "pooled"


@pytest.fixture
def text(tmp_path: Path) -> Path:
    path = tmp_path / "text.txt"
    path.write_text("the fox\nA man is eating lunch.\nrain\nSomeone has a meal.\n", encoding="utf-8")
    return path
