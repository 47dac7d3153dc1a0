"""Running commands in this process, as the installed script does."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import pytest

from nearer.cli.main import main


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
        capsys.readouterr()
        with pytest.raises(SystemExit) as caught:
            main()
        captured = capsys.readouterr()
        return Outcome(int(caught.value.code or 0), captured.out, captured.err)

    return run
