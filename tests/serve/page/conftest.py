"""A service with the bundled model in two poolings, each with an index of the same sentences; visits to its page."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from page_service import Visit, corpus, serving, visiting

from browser import started_browser
from nearer.encoder import Encoder
from nearer.search import SearchIndex
from nearer.serve.model import ServedModel


@pytest.fixture(scope="session")
def indexes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, SearchIndex]:
    root = tmp_path_factory.mktemp("page")
    (root / "everyday.txt").write_text("\n".join(corpus()) + "\n", encoding="utf-8")
    encoders = {pooling: Encoder.load("wiki-mini", pooling=pooling, device="cpu") for pooling in ("mean", "cls")}
    return {name: SearchIndex.build(one, root / "everyday.txt", root / name) for name, one in encoders.items()}


@pytest.fixture(scope="session")
def address(indexes: dict[str, SearchIndex]) -> Iterator[str]:
    models = {name: ServedModel(index.model.encoder, name) for name, index in indexes.items()}
    with serving(models["mean"], index=indexes["mean"], beside=models["cls"], beside_index=indexes["cls"]) as served:
        yield served


@pytest.fixture(scope="module")  # for longer, its event loop would be in the way of tests that need one of their own
def browser() -> Iterator[Any]:
    with started_browser() as started:
        yield started


@pytest.fixture
def visit(browser: Any, address: str) -> Iterator[Callable[..., Visit]]:
    """Nothing may go wrong on the page, and nobody else may be asked."""
    with ExitStack() as stack:
        visits = []

        def go(*how: str, **options: Any) -> Visit:
            visits.append(stack.enter_context(visiting(browser, address, *how, **options)))
            return visits[-1]

        yield go
        for one in visits:
            assert one.wrong == []
            assert [url for url in one.asked if not url.startswith((address, "data:"))] == []
            assert one.page.evaluate("window.harmed") is None
