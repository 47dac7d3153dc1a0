"""Encoders of GGUF files: unpacked once into the cache, and then as any other model."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from nearer import Encoder
from nearer.encoder.gguf import unpacked_copy
from nearer.errors import ModelError
from nearer.storage.cache import cache_folder

REAL = "smollm2-135m-instruct"


@pytest.fixture
def real() -> Path:
    pytest.importorskip("gguf")
    for root in [*os.environ.get("NEARER_MODELS", "").split(os.pathsep), "~/.cache/nearer-models"]:
        file = Path(root).expanduser() / f"{REAL}.gguf"
        if root and file.is_file():
            return file
    pytest.skip(f"the model {REAL}.gguf is not here: put it into a folder named by NEARER_MODELS")


@pytest.mark.slow
def test_a_real_one_encodes_in_a_template(real: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    encoder = Encoder.load(real, template="prompteol", device="cpu")
    vectors = encoder.encode(["A man is eating.", "Somebody has a meal.", "The river is wide."], normalize=True)
    assert vectors[0] @ vectors[1] > vectors[0] @ vectors[2]
    before = {path: path.stat().st_mtime_ns for path in unpacked_copy(real).iterdir()}
    monkeypatch.setenv("NEARER_MODELS", str(real.parent))
    again = Encoder.load(REAL, template="prompteol", device="cpu")  # by its name, and not unpacked again
    np.testing.assert_allclose(again.encode(["A man is eating."], normalize=True), vectors[:1], atol=1e-5)
    assert {path: path.stat().st_mtime_ns for path in unpacked_copy(real).iterdir()} == before


@pytest.mark.parametrize(
    ("content", "told"),
    [(b"text", "is not a GGUF file; other models are folders"), (b"GGUF", "cannot be|can be loaded")],
)
def test_what_is_none_is_refused_and_leaves_nothing(content: bytes, told: str, tmp_path: Path) -> None:
    pytest.importorskip("gguf")
    path = tmp_path / "model.gguf"
    path.write_bytes(content)
    with pytest.raises(ModelError, match=told):
        Encoder.load(path, template="prompteol")
    assert not [each for each in cache_folder("unpacked").glob("*") if each.is_dir()]


def test_one_that_is_not_there_is_not_looked_for_on_the_hub() -> None:
    with pytest.raises(ModelError, match=r"models/none\.gguf: no such file\."):
        Encoder.load("models/none.gguf")


def test_other_files_are_no_models(tmp_path: Path) -> None:
    (tmp_path / "model.bin").write_bytes(b"GGUF")
    with pytest.raises(ModelError, match="is a file, a model is a folder"):
        Encoder.load(tmp_path / "model.bin")
