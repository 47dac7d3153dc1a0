"""A tiny league to change, and one that ran once."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from tiny_league import Ground

from nearer.leagues.league import league
from nearer.leagues.outcome import LeagueOutcome


@pytest.fixture
def ground(tmp_path: Path, tiny_model: Callable[[str], Path]) -> Ground:
    return Ground(tmp_path, tiny_model("bert"))


@pytest.fixture(scope="session")
def whole(tmp_path_factory: pytest.TempPathFactory, tiny_model: Callable[[str], Path]) -> tuple[Ground, LeagueOutcome]:
    """A league from its beginning to its end; tests leave it as it is."""
    ground = Ground(tmp_path_factory.mktemp("whole"), tiny_model("bert"))
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("NEARER_CACHE", str(ground.folder / "cache"))
        return ground, league(ground.file, ground.out)
