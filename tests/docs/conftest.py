"""The site as `make docs` builds it, built once for all that look at it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from patience import HANG

ROOT = Path(__file__).parents[2]


def build_site(folder: Path, settings: Path = ROOT / "mkdocs.yml") -> subprocess.CompletedProcess[str]:
    for package in ("mkdocs", "mkdocstrings"):
        pytest.importorskip(package, reason=f"{package} is not installed: pip install -e '.[docs]'")
    command = [sys.executable, "-m", "mkdocs", "build", "--config-file", str(settings), "--site-dir", str(folder)]
    return subprocess.run(command, capture_output=True, text=True, timeout=HANG)


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("docs") / "site"
    done = build_site(folder)
    assert done.returncode == 0, done.stderr
    return folder
