"""Language models: a tiny random one, and real ones where they are."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from decoding_by_hand import ByHand, make_tiny


@pytest.fixture(scope="session")
def tiny_llm(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_tiny(tmp_path_factory.mktemp("llm") / "tiny")


@pytest.fixture(scope="session")
def by_hand(tiny_llm: Path) -> ByHand:
    return ByHand(tiny_llm, window=160)


@pytest.fixture(scope="session")
def gguf() -> Callable[[str], Path]:
    """A real GGUF file; the test is skipped, with the reason, where it is not there."""

    def find(name: str) -> Path:
        for root in [*os.environ.get("NEARER_MODELS", "").split(os.pathsep), "~/.cache/nearer-models"]:
            file = Path(root).expanduser() / f"{name}.gguf"
            if root and file.is_file():
                return file
        pytest.skip(f"the model {name}.gguf is not here: put it into a folder named by NEARER_MODELS")

    return find
