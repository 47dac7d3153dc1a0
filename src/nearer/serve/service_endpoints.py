"""Endpoints about the service itself: its health, counts and models, and the page for people.

The page is made of fixed files of the package, which are read once at the start. No request can name another file.
"""

from __future__ import annotations

import mimetypes
from collections.abc import Mapping, Sequence
from pathlib import Path

from fastapi import FastAPI, Request
from fastapi.responses import HTMLResponse, PlainTextResponse, Response

from nearer.errors import InputError
from nearer.serve import schemas
from nearer.serve.metrics import CONTENT_TYPE
from nearer.serve.responses import READING, describe_errors
from nearer.serve.service import HostedModel, Service

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
