"""The service's own OpenAPI description, taken at its word by schemathesis."""

from __future__ import annotations

import os
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
from nearer.serve.service import TokenDecoder

OPERATIONS = [
    ("GET", "/"),
    ("GET", "/geometry"),
    ("GET", "/health"),
    ("GET", "/map"),
    ("GET", "/metrics"),
    ("GET", "/v1/models"),
    ("POST", "/embed"),
    ("POST", "/map/place"),
    ("POST", "/rerank"),
    ("POST", "/similarity"),
    ("POST", "/v1/embeddings"),
    ("POST", "/v1/rerank"),
    ("POST", "/v1/search"),
    ("POST", "/v2/embed"),
    ("POST", "/v2/rerank"),
]
# which take something that can be wrong
ASKED = {"/geometry", "/map"} | {path for method, path in OPERATIONS if method == "POST"}
EXAMPLES = int(os.environ.get("NEARER_FUZZ", "30"))


class EveryId:
    """An encoding in which every id is a token."""

    def decode(self, ids: list[int]) -> str:
        return " ".join(map(str, ids))


@pytest.fixture(scope="module")
def description(served, second, encoder, tmp_path_factory) -> Iterator[BaseSchema]:
    folder = tmp_path_factory.mktemp("fuzz")
    (folder / "text.txt").write_text("rain\na man\nthe lazy dog\n", encoding="utf-8")
    indices = [
        SearchIndex.build(model, folder / "text.txt", folder / f"index-{number}")
        for number, model in enumerate((encoder, second.model))
    ]
    limits = Limits(batch_wait=0.0, items=20, characters=1000)
    app = create_app(served, limits=limits, index=indices[0], beside=second, beside_index=indices[1])
    app.state.service.token_decoder = TokenDecoder(EveryId)
    yield schemathesis.openapi.from_asgi("/openapi.json", app)
    app.state.service.close()


def test_all_operations_are_tried(description) -> None:
    found = [result.ok() for result in description.get_all_operations()]
    assert sorted((operation.method.upper(), operation.path) for operation in found) == OPERATIONS


@pytest.mark.parametrize(
    ("method", "path", "mode"),
    [
        (*operation, mode)
        for operation in OPERATIONS
        for mode in GenerationMode
        if operation[1] in ASKED or mode.is_positive
    ],
)
def test_answers_as_described(description, method: str, path: str, mode: GenerationMode) -> None:
    """No 5xx; statuses, types and bodies are those announced; what breaks the description is refused."""
    seen = set()

    @given(case=description[path][method].as_strategy(generation_mode=mode))
    @settings(
        max_examples=EXAMPLES,
        deadline=None,
        derandomize="NEARER_FUZZ" not in os.environ,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    def check(case: schemathesis.Case) -> None:
        # what goes with rerank no description can say
        excluded = [CHECKS.get_one("positive_data_acceptance")] if path == "/v1/search" else []
        seen.add(case.call_and_validate(excluded_checks=excluded).status_code)

    check()
    assert (200 in seen) == (mode is GenerationMode.POSITIVE)
