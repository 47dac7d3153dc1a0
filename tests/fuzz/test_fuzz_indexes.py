"""Search indexes with any content: searched, or refused in words.

FAISS' own files are read by FAISS, in C++, which trusts them: they are not changed here but cut, and their size is
checked before FAISS sees them.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mutations import damaged_bytes, damaged_json, tries

from nearer.encoder import Encoder
from nearer.errors import NearerError
from nearer.search import SearchIndex

WORDS = ["the", "quick", "brown", "fox", "over", "a", "lazy", "dog", "rain", "until", "lunch", "far", "away"]


@pytest.fixture(scope="module")
def encoder(tiny_model: Callable[[str], Path]) -> Encoder:
    return Encoder.load(tiny_model("bert"), pooling="mean", device="cpu")


@pytest.fixture(scope="module")
def made(encoder: Encoder, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    place = tmp_path_factory.mktemp("fuzz-indexes")
    lines = [" ".join(WORDS[(start * 7 + step) % len(WORDS)] for step in range(3 + start % 5)) for start in range(50)]
    (place / "corpus.txt").write_text("".join(f"{line}\n" for line in lines))
    for kind in ("exact", "ivf"):
        SearchIndex.build(encoder, place / "corpus.txt", place / kind, kind=kind)
    return {kind: place / kind for kind in ("exact", "ivf")}


def open_and_search(folder: Path, encoder: Encoder, bounded: Any) -> None:
    with bounded(), suppress(NearerError):
        index = SearchIndex.open(folder, model=encoder)
        index.search(["the lazy dog", "rain"], 5)
        index.search(["rain"], 60, exact=True)


@pytest.mark.parametrize("kind", ["exact", "ivf"])
@tries(40)
@given(draw=st.data())
def test_indexes(kind: str, made: dict[str, Path], encoder: Encoder, bounded: Any, draw: st.DataObject) -> None:
    folder = made[kind]
    path = draw.draw(
        st.sampled_from(sorted(path for path in folder.iterdir() if path.suffix in (".json", ".bin", ".faiss")))
    )
    before = path.read_bytes()
    try:
        if path.suffix == ".json":
            path.write_bytes(draw.draw(damaged_json(path)))
        elif path.suffix == ".bin":
            path.write_bytes(draw.draw(damaged_bytes(before)))
        else:
            os.truncate(path, draw.draw(st.integers(0, len(before) - 1)))
        open_and_search(folder, encoder, bounded)
    finally:
        path.write_bytes(before)
