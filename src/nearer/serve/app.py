"""The service as one application: the endpoints over a `Service`, the guard around them, and their description.

The endpoints about the service itself stand here: its health, counts and models, and the page for people. The page is
made of fixed files of the package, which are read once at the start. No request can name another file.
"""

from __future__ import annotations

import asyncio
import mimetypes
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fastapi import FastAPI, Request
from fastapi.responses import HTMLResponse, PlainTextResponse, Response

from nearer.errors import InputError
from nearer.extras import require
from nearer.serve import schemas
from nearer.serve.guard import Guard, Paths
from nearer.serve.limits import Limits
from nearer.serve.metrics import CONTENT_TYPE
from nearer.serve.model import ServedModel
from nearer.serve.responses import READING, describe_errors
from nearer.serve.service import HostedModel, Service

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
    from nearer.serve.app import LOOK, add_page, add_service_endpoints, read_page
    from nearer.serve.client_endpoints import add_client_endpoints
    from nearer.serve.index_endpoints import add_index_endpoints
    from nearer.serve.responses import add_fault_handlers
    from nearer.serve.service import Service
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
    dimensions = [hosted.model.dimension for hosted in service.models]
    describe_service(app.openapi(), service.limits, service.names, dimensions)  # FastAPI keeps what it once described
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


FOLDER = Path(__file__).parent / "page"
LOOK = Path(__file__).parents[1] / "look.css"  # the report has it too
INDEX = "index.html"
# The page works with what this service gives it and nothing else: no inline script, nothing from elsewhere, no frame
HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-cache",
    "Referrer-Policy": "no-referrer",
}
# Not left to the machine's own table, which may call scripts text/plain: browsers then refuse them
TYPES = {".html": "text/html", ".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}


def add_service_endpoints(app: FastAPI, service: Service) -> None:
    @app.get("/health", responses=describe_errors(421))
    async def health() -> schemas.Health:
        """Whether the service answers. Asks for no key."""
        return schemas.Health(status="ok", model=service.names[0], waiting_texts=service.waiting_texts)

    @app.get("/metrics", responses=READING, response_class=PlainTextResponse)
    async def metrics(request: Request) -> PlainTextResponse:
        """Counts in Prometheus' text format."""
        text = service.metrics.text(waiting=service.waiting_texts, open_requests=service.open_requests)
        return PlainTextResponse(text, media_type=CONTENT_TYPE)

    @app.get("/v1/models", responses=READING)
    async def models() -> schemas.Models:
        """The models that are served, the first of them first: that is the one meant where a request names none."""
        return schemas.Models(object="list", data=[_card(hosted, service.started) for hosted in service.models])


def _card(hosted: HostedModel, started: int) -> schemas.ModelCard:
    index = hosted.index
    return schemas.ModelCard(
        id=hosted.name,
        object="model",
        created=started,
        owned_by="nearer",
        dimensions=hosted.model.dimension,
        max_tokens=hosted.model.max_length,
        scoring=hosted.model.model.scoring,
        index=None if index is None else schemas.IndexFacts(texts=len(index), kind=index.manifest.kind),
    )


def read_page(folder: Path = FOLDER, shared: Sequence[Path] = ()) -> dict[str, tuple[bytes, str]]:
    """Content and media type by path: `/` for the page itself, `/page/NAME` for each file beside it.

    shared: files from elsewhere that it has in common with other pages.
    """
    found: dict[str, tuple[bytes, str]] = {}
    for file in [*sorted(folder.iterdir()), *shared] if folder.is_dir() else []:
        if file.is_file() and not file.name.startswith("."):
            path = "/" if file.name == INDEX else f"/page/{file.name}"
            found[path] = (file.read_bytes(), _media_type(file))
    if "/" not in found:
        raise InputError(f"{folder}: the page ({INDEX}) is missing; install nearer anew.")
    return found


def add_page(app: FastAPI, files: Mapping[str, tuple[bytes, str]]) -> None:
    """One route for each file; they ask for no key, since a browser cannot send one when it is told an address."""

    def route(path: str, content: bytes, kind: str) -> None:
        async def file() -> Response:
            return Response(content, media_type=kind, headers=HEADERS)

        shown = path == "/"
        app.add_api_route(
            path,
            file,
            methods=["GET"],
            name="page",
            description="The page for people: search, compare and see the served models. Asks for no key.",
            response_class=HTMLResponse,
            include_in_schema=shown,  # the files it is made of are nobody's interface
        )

    for path, (content, kind) in files.items():
        route(path, content, kind)


def _media_type(file: Path) -> str:
    return TYPES.get(file.suffix) or mimetypes.guess_type(file.name)[0] or "application/octet-stream"
