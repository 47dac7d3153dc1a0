"""The service's own OpenAPI description, taken at its word by schemathesis."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis import GenerationMode
from schemathesis.checks import CHECKS
from schemathesis.schemas import BaseSchema

from nearer.search import SearchIndex
from nearer.serve.app import create_app
from nearer.serve.limits import Limits

OPERATIONS = [
    ("GET", "/health"),
    ("GET", "/metrics"),
    ("GET", "/v1/models"),
    ("POST", "/similarity"),
    ("POST", "/v1/embeddings"),
    ("POST", "/v1/rerank"),
    ("POST", "/v1/search"),
]
EXAMPLES = 60


@pytest.fixture(scope="module")
def description(served, encoder, tmp_path_factory) -> Iterator[BaseSchema]:
    folder = tmp_path_factory.mktemp("fuzz")
    (folder / "text.txt").write_text("rain\na man\nthe lazy dog\n", encoding="utf-8")
    index = SearchIndex.build(encoder, folder / "text.txt", folder / "index")
    app = create_app(served, limits=Limits(batch_wait=0.0, items=20, characters=1000), index=index)
    yield schemathesis.openapi.from_asgi("/openapi.json", app)
    app.state.service.batcher.close()


def test_all_operations_are_tried(description) -> None:
    found = [result.ok() for result in description.get_all_operations()]
    assert sorted((operation.method.upper(), operation.path) for operation in found) == OPERATIONS


@pytest.mark.parametrize(
    ("method", "path", "mode"),
    # those without a body take nothing that could be wrong
    [
        (*operation, mode)
        for operation in OPERATIONS
        for mode in GenerationMode
        if operation[0] == "POST" or mode.is_positive
    ],
)
def test_answers_as_described(description, method: str, path: str, mode: GenerationMode) -> None:
    """No 5xx; statuses, types and bodies are those announced; what breaks the description is refused."""
    seen = set()

    @given(case=description[path][method].as_strategy(generation_mode=mode))
    @settings(
        max_examples=EXAMPLES,
        deadline=None,
        derandomize=True,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    def check(case: schemathesis.Case) -> None:
        if mode is GenerationMode.POSITIVE and isinstance(case.body, dict) and "model" in case.body:
            case.body["model"] = "tiny"
        # that a query has more than spaces in it, and what goes with rerank, no description can say
        excluded = [CHECKS.get_one("positive_data_acceptance")] if path == "/v1/search" else []
        seen.add(case.call_and_validate(excluded_checks=excluded).status_code)

    check()
    assert (200 in seen) == (mode is GenerationMode.POSITIVE)
