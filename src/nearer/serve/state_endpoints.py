"""Endpoints that tell of the service itself."""

from __future__ import annotations

from fastapi import FastAPI, Request
from fastapi.responses import PlainTextResponse

from nearer.serve import schemas
from nearer.serve.answers import READING, errors
from nearer.serve.app import Service
from nearer.serve.offered import Offered


def add_state_endpoints(app: FastAPI, service: Service) -> None:
    @app.get("/health", responses=errors(421))
    async def health() -> schemas.Health:
        """Whether the service answers. Asks for no key."""
        return schemas.Health(status="ok", model=service.names[0], waiting_texts=service.waiting_texts)

    @app.get("/metrics", responses=READING, response_class=PlainTextResponse)
    async def metrics(request: Request) -> PlainTextResponse:
        """Counts in Prometheus' text format."""
        text = service.metrics.text(waiting=service.waiting_texts, open_requests=service.open_requests)
        return PlainTextResponse(text, media_type="text/plain; version=0.0.4")

    @app.get("/v1/models", responses=READING)
    async def models() -> schemas.Models:
        """The models that are served, the first of them first: that is the one meant where a request names none."""
        return schemas.Models(object="list", data=[_card(one, service.started) for one in service.offered])


def _card(one: Offered, started: int) -> schemas.ModelCard:
    index = one.index
    return schemas.ModelCard(
        id=one.name,
        object="model",
        created=started,
        owned_by="nearer",
        dimensions=one.model.dimension,
        max_tokens=one.model.max_length,
        scoring=one.model.model.scoring,
        index=None if index is None else schemas.IndexFacts(texts=len(index), kind=index.manifest.kind),
    )
