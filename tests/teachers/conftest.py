"""A tiny teacher, what it says of sentences, and a watch on how often it is asked."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from teacher_text import SENTENCES, WINDOW, Watch, write_lines
from torch import Tensor

from nearer.encoder import Encoder
from nearer.teachers import VectorStore, vector_store
from nearer.text import read_sentences


@pytest.fixture(scope="session")
def encoder(tiny_model: Callable[[str], Path]) -> Encoder:
    """To be left as it is."""
    return Encoder.load(tiny_model("bert"), pooling="mean", device="cpu")


@pytest.fixture
def small_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that a text of forty sentences has several."""
    monkeypatch.setattr(vector_store, "WINDOW_ON_CPU", WINDOW)


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    return write_lines(tmp_path / "corpus.txt", [*SENTENCES, *SENTENCES[:5]])


@pytest.fixture
def watch(monkeypatch: pytest.MonkeyPatch) -> Watch:
    watching, forward = Watch(), Encoder.forward

    def watched(self: Encoder, ids: Tensor, mask: Tensor, pooled_mask: Tensor | None = None) -> Tensor:
        watching.see(len(ids))
        return forward(self, ids, mask, pooled_mask)

    monkeypatch.setattr(Encoder, "forward", watched)
    return watching


@pytest.fixture(scope="session")
def check_vectors() -> Callable[..., None]:
    """That a store has the model's vectors of a file's sentences, each at its place."""

    def check(store: VectorStore, path: Path, **options: object) -> None:
        rows = store.rows(read_sentences(path))
        sentences = [line for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
        wanted = store.encoder.encode(sentences, normalize=True, precision=store.precision)
        found = store.vectors()[rows]
        assert found.dtype == np.float16
        np.testing.assert_allclose(found.astype(np.float32), wanted, atol=4e-4)
        assert len(set(rows.tolist())) == len(set(sentences))

    return check
