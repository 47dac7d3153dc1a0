"""Documents and tiny models for whole runs of adapt."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from test_made_tests import passage

from nearer.encoder import Encoder


@pytest.fixture
def documents(tmp_path: Path) -> Path:
    path = tmp_path / "documents.jsonl"
    rows = (
        {"_id": one.document, "title": one.title, "text": one.text.split(" Who")[0]} for one in map(passage, range(150))
    )
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


@pytest.fixture
def models(
    tiny_model: Callable[[str], Path], tiny_cross_encoder: Callable[..., Path], tmp_path: Path
) -> dict[str, Any]:
    folder = tmp_path / "base"
    Encoder.load(tiny_model("bert"), pooling="mean", device="cpu").save(folder)
    return {"model": folder, "judge": tiny_cross_encoder("bert"), "device": "cpu"}


@pytest.fixture
def teacher(tiny_model: Callable[[str], Path], tmp_path: Path) -> Path:
    folder = tmp_path / "teacher"
    Encoder.load(tiny_model("roberta"), pooling="mean", device="cpu").save(folder)
    return folder
