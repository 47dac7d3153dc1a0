"""The site as `make docs` builds it, built once for all that look at it."""

from __future__ import annotations

from pathlib import Path

import pytest
from site_build import build_site


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("docs") / "site"
    done = build_site(folder)
    assert done.returncode == 0, done.stderr
    return folder
