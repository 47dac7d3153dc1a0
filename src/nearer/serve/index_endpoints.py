"""Endpoints over a model's index: search, the map of its sentences, the geometry of their vectors."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import asdict
from pathlib import PurePath
from typing import Annotated, Any, TypeVar

import numpy as np
from fastapi import FastAPI, Query, Request
from fastapi.responses import Response

from nearer.errors import InputError, SettingError
from nearer.search import Hit
from nearer.serve import index_schemas, schemas
from nearer.serve.answers import ASKING, LOOKING, as_json, listed
from nearer.serve.app import Service
from nearer.serve.index_geometry import POSITIVES
from nearer.serve.limits import Refusal, check_items, check_scores, check_texts, invalid
from nearer.serve.offered import Offered
from nearer.serve.sentence_map import SHOWN_CHARACTERS, SentenceMap
from nearer.serve.served import Vectors

T = TypeVar("T")
ServedQuery = Annotated[str | None, Query(description="A served model's name; by default the first.")]


def add_index_endpoints(app: FastAPI, service: Service) -> None:
    @app.post("/v1/search", response_model=schemas.Found, responses=ASKING)
    async def search(body: schemas.SearchBody, request: Request) -> Response:
        """The sentences of the index nearest to a text."""
        one = service.find(body.model)
        index = one.need_index()
        queries = listed(body.query)
        check_texts(queries, "query", service.limits)
        check_items(body.k, "k", service.limits)
        check_items(body.rerank, "rerank", service.limits)
        check_scores(len(queries) * max(body.k, body.rerank), "k", service.limits)
        vectors = await _query_vectors(service, one, request, queries)

        def nearest() -> list[list[Hit]]:
            return index.search(vectors, body.k, exact=body.exact, rerank=body.rerank)

        found = await _searched(service, nearest)
        results = [[{**asdict(hit), "source": PurePath(hit.source).name} for hit in hits] for hits in found]
        return as_json({"results": results[0] if isinstance(body.query, str) else results, "model": one.name})

    @app.get("/map", response_model=index_schemas.Map, responses=LOOKING)
    async def sentence_map(request: Request, model: ServedQuery = None) -> Response:
        """Sentences of the index on a plane, near where they are near in meaning. Made when first asked for."""
        _check_query(request)
        one = service.find(model)
        one.need_index()
        return as_json(_shown(one.name, await service.ask_once(request, one.map)))

    @app.post("/map/place", response_model=index_schemas.Placed, responses=ASKING)
    async def place(body: index_schemas.PlaceBody, request: Request) -> Response:
        """Where a text and the sentences nearest to it lie on the map."""
        one = service.find(body.model)
        index = one.need_index()
        check_texts([body.query], "query", service.limits)
        check_items(body.k, "k", service.limits)
        vectors = await _query_vectors(service, one, request, [body.query])
        made = await service.ask_once(request, one.map)

        def placed() -> dict[str, Any]:
            (hits,) = index.search(vectors, body.k)
            rows = np.array([hit.row for hit in hits], dtype=np.int64)
            places = made.place_rows(rows, index.vectors[rows]).tolist()
            x, y = made.place(vectors)[0].tolist()
            return {"x": x, "y": y, "results": [_placed(hit, *at) for hit, at in zip(hits, places, strict=True)]}

        return as_json(await _searched(service, placed))

    @app.get("/geometry", response_model=index_schemas.IndexGeometry, responses=LOOKING)
    async def geometry(request: Request, model: ServedQuery = None) -> Response:
        """Alignment and uniformity of the index' vectors. Measured when first asked for."""
        _check_query(request)
        one = service.find(model)
        one.need_index()
        one.need_cosines()
        measured = await service.ask_once(request, one.geometry)
        return as_json({"model": one.name, **asdict(measured), "positives": POSITIVES})


def _check_query(request: Request) -> None:
    """A parameter that is not known is refused, as a body's fields are."""
    for name in request.query_params:
        if name != "model":
            raise invalid(name[:100], "is not known here; the one parameter is model.")


async def _query_vectors(service: Service, one: Offered, request: Request, queries: list[str]) -> Vectors:
    model = one.need_index().model
    # a job without texts: the index knows the prompt and precision of its queries, the thread owns the model
    vectors: Vectors = await service.ask(request, one.batcher, [], lambda _: model.encode(queries))
    return vectors


async def _searched(service: Service, work: Callable[[], T]) -> T:
    """In a thread, few at a time: searching takes both time and memory."""
    try:
        async with service.searching:
            return await asyncio.to_thread(work)
    except (InputError, SettingError) as error:
        raise Refusal(422, str(error), code="invalid_value") from None


def _shown(name: str, made: SentenceMap) -> dict[str, Any]:
    sample = made.sample
    facts = zip(made.places.tolist(), sample.texts, sample.lines, sample.sources, made.groups, strict=True)
    return {
        "model": name,
        "method": made.method,
        "explained": made.explained,
        "sampled": len(sample),
        "of": sample.of,
        "points": [
            {"x": x, "y": y, "text": text[:SHOWN_CHARACTERS], "line": line, "source": source, "group": group}
            for (x, y), text, line, source, group in facts
        ],
        "groups": [{"label": label} for label in made.labels],
    }


def _placed(hit: Hit, x: float, y: float) -> dict[str, Any]:
    source = PurePath(hit.source).name
    return {"x": x, "y": y, "text": hit.text, "score": hit.score, "line": hit.line, "source": source}
