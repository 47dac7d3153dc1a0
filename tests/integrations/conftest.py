"""A tiny student in sentence-transformers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("sentence_transformers")


@pytest.fixture(scope="session")
def student_folder(tiny_model: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tiny BERT in the layout of sentence-transformers."""
    from nearer.encoder import Encoder

    folder = tmp_path_factory.mktemp("student") / "model"
    Encoder.load(tiny_model("bert"), pooling="mean", max_length=16, device="cpu").save(folder)
    return folder


@pytest.fixture
def student(student_folder: Path) -> Any:
    from sentence_transformers import SentenceTransformer

    model = SentenceTransformer(str(student_folder), device="cpu")
    model.model_card_data.local_files_only = True
    model.model_card_data.generate_widget_examples = False
    return model
