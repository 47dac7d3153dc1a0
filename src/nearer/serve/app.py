"""The service as one application: the endpoints over a `Service`, the guard around them, and their description."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import asynccontextmanager
from functools import cache
from typing import TYPE_CHECKING, Any

from nearer.extras import require
from nearer.serve.guard import Guard, Paths
from nearer.serve.limits import Limits
from nearer.serve.model import ServedModel

if TYPE_CHECKING:
    from fastapi import FastAPI

    from nearer.search import SearchIndex

COUNTS = {"SearchBody": ("k", "rerank"), "PlaceBody": ("k",)}
# A character that is no whitespace, as Python has it: other languages' \s differs
NOT_BLANK = r"[^\t-\r\u001c-\u0020\u0085\u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]"
DIMENSIONS = {"EmbeddingsBody": "dimensions", "CohereEmbedBody": "output_dimension", "TeiEmbedBody": "dimensions"}


def create_app(
    model: ServedModel,
    *,
    limits: Limits | None = None,
    index: SearchIndex | None = None,
    beside: ServedModel | None = None,
    beside_index: SearchIndex | None = None,
    api_keys: str | Sequence[str] = (),
    hosts: Collection[str] | None = None,
) -> FastAPI:
    """index: makes `/v1/search`, the map and the geometry answer. beside, beside_index: a second model, with a queue
    and an index of its own. api_keys: one of them is asked of every request except `/health` and the page. hosts: see
    `Guard`."""
    for package in ("fastapi", "prometheus_client"):
        require(package, "serve", "the service")
    from fastapi import FastAPI

    import nearer
    from nearer.serve.client_endpoints import add_client_endpoints
    from nearer.serve.index_endpoints import add_index_endpoints
    from nearer.serve.responses import add_fault_handlers
    from nearer.serve.service import Service
    from nearer.serve.service_endpoints import LOOK, add_page, add_service_endpoints, read_page
    from nearer.serve.text_endpoints import add_text_endpoints

    page = read_page(shared=[LOOK])
    service = Service(limits or Limits())
    service.add_model(model, index)
    if beside is not None:
        service.add_model(beside, beside_index)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        service.open()
        yield
        await asyncio.to_thread(service.close)

    app = FastAPI(
        title="nearer",
        version=nearer.__version__,
        summary="Sentences to vectors, and which of them are nearer in meaning.",
        lifespan=lifespan,
        docs_url=None,  # these pages would load their scripts from elsewhere
        redoc_url=None,
    )
    app.state.service = service
    add_fault_handlers(app)
    add_service_endpoints(app, service)
    add_text_endpoints(app, service)
    add_client_endpoints(app, service)
    add_index_endpoints(app, service)
    add_page(app, page)
    describe_routes = app.openapi

    @cache  # made when it is first asked for: it takes longer than all else here
    def describe() -> dict[str, Any]:
        description = describe_routes()
        dimensions = [hosted.model.dimension for hosted in service.models]
        describe_service(description, service.limits, service.names, dimensions)
        return description

    app.openapi = describe  # type: ignore[method-assign]
    app.add_middleware(Guard, service=service, paths=Paths.of(app.routes, page), api_keys=api_keys, hosts=hosts)
    return app


def describe_service(
    description: dict[str, Any], limits: Limits, names: Sequence[str], dimensions: Sequence[int]
) -> None:
    """Into requests: the models' names, items of lists, characters of texts, counts, and the models' dimensions."""
    components = description["components"]["schemas"]
    for name, component in components.items():
        if name.endswith("Body") or name == "Document":
            _bound(component, limits)
        if name.endswith("Body") and "model" in component["properties"]:
            _name(component["properties"]["model"], names)
    for body, counts in COUNTS.items():
        for count in counts:
            components[body]["properties"][count]["maximum"] = limits.items
    for body, field in DIMENSIONS.items():
        for choice in components[body]["properties"][field]["anyOf"]:
            if choice["type"] == "integer":
                choice["maximum"] = max(dimensions)
    for path in description["paths"].values():
        for parameter in path.get("get", {}).get("parameters", []):
            if parameter["name"] == "model":
                parameter["schema"] = {"type": "string", "enum": list(names)}


def _name(part: dict[str, Any], names: Sequence[str]) -> None:
    for choice in part.get("anyOf", [part]):
        if choice["type"] == "string":
            choice["enum"] = list(names)


def _bound(part: Any, limits: Limits) -> None:
    if isinstance(part, list):
        for one in part:
            _bound(one, limits)
    if not isinstance(part, dict):
        return
    kind = part.get("type")
    if kind == "array":
        token_ids = part["items"].get("type") == "integer"
        part.setdefault("maxItems", limits.tokens if token_ids else limits.items)
    elif kind == "string" and "minLength" in part:
        part.setdefault("maxLength", limits.characters)
        part.setdefault("pattern", NOT_BLANK)
    for one in part.values():
        _bound(one, limits)
