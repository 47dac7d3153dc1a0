"""Endpoints over a model's index: search, the map of its sentences, the geometry of their vectors."""

from __future__ import annotations

import asyncio
import json
from dataclasses import asdict
from pathlib import PurePath
from typing import Annotated, Any

import numpy as np
from fastapi import FastAPI, Query, Request
from fastapi.responses import Response

from nearer.search import Hit, SearchIndex
from nearer.serve import schemas
from nearer.serve.background import Steps
from nearer.serve.fairness import Holding, holding_of
from nearer.serve.index_overview import POSITIVES, SHOWN_CHARACTERS, SentenceMap
from nearer.serve.limits import Limits, check_items, check_scores, check_texts, invalid
from nearer.serve.model import Vectors
from nearer.serve.responses import ASKING, LOOKING, as_list, json_response
from nearer.serve.service import HostedModel, Service

# Sentences that are looked up in one step, after which other requests get their turn
HITS_AT_ONCE = 512
ServedQuery = Annotated[str | None, Query(description="A served model's name; by default the first.")]


def add_index_endpoints(app: FastAPI, service: Service) -> None:
    @app.post("/v1/search", response_model=schemas.Found, responses=ASKING)
    async def search(body: schemas.SearchBody, request: Request) -> Response:
        """The sentences of the index nearest to a text."""
        hosted = service.find(body.model)
        index = hosted.need_index()
        queries = as_list(body.query)
        check_texts(queries, "query", service.limits)
        check_items(body.k, "k", service.limits)
        check_items(body.rerank, "rerank", service.limits)
        check_scores(len(queries) * max(body.k, body.rerank), "k", service.limits)
        check_rerank(body.k, body.rerank)

        async def found() -> list[str]:
            vectors = await _query_vectors(service, hosted, request, queries)
            return await service.submit_steps(request, _hits(index, vectors, body, service.limits, holding_of(request)))

        results = await service.wait(request, found())
        shown = results[0] if isinstance(body.query, str) else f"[{', '.join(results)}]"
        return Response(f'{{"results": {shown}, "model": {json.dumps(hosted.name)}}}', media_type="application/json")

    @app.get("/map", response_model=schemas.Map, responses=LOOKING)
    async def sentence_map(request: Request, model: ServedQuery = None) -> Response:
        """Sentences of the index on a plane, near where they are near in meaning. Made when first asked for."""
        _check_query(request)
        hosted = service.find(model)
        hosted.need_index()
        return json_response(_shown(hosted.name, await service.compute_once(request, hosted.map)))

    @app.post("/map/place", response_model=schemas.Placed, responses=ASKING)
    async def place(body: schemas.PlaceBody, request: Request) -> Response:
        """Where a text and the sentences nearest to it lie on the map."""
        hosted = service.find(body.model)
        index = hosted.need_index()
        check_texts([body.query], "query", service.limits)
        check_items(body.k, "k", service.limits)

        async def placed() -> dict[str, Any]:
            vectors = await _query_vectors(service, hosted, request, [body.query])
            made = await asyncio.wrap_future(hosted.map.ask())
            return await service.submit_steps(request, _placed(index, made, vectors, body.k))

        return json_response(await service.wait(request, placed()))

    @app.get("/geometry", response_model=schemas.IndexGeometry, responses=LOOKING)
    async def geometry(request: Request, model: ServedQuery = None) -> Response:
        """Alignment and uniformity of the index' vectors. Measured when first asked for."""
        _check_query(request)
        hosted = service.find(model)
        hosted.need_index()
        hosted.need_cosines()
        measured = await service.compute_once(request, hosted.geometry)
        return json_response({"model": hosted.name, **asdict(measured), "positives": POSITIVES})


def _check_query(request: Request) -> None:
    """A parameter that is not known is refused, as a body's fields are."""
    for name in request.query_params:
        if name != "model":
            raise invalid(name[:100], "is not known here; the one parameter is model.")


async def _query_vectors(service: Service, hosted: HostedModel, request: Request, queries: list[str]) -> Vectors:
    return (await service.submit_texts(request, hosted, queries, hosted.queries)).vectors


def check_rerank(k: int, rerank: int) -> None:
    if rerank and rerank < k:
        raise invalid("rerank", f"{rerank} sentences cannot be reordered into the best {k}; give {k} or more.")


def _hits(
    index: SearchIndex, vectors: Vectors, body: schemas.SearchBody, limits: Limits, holding: Holding
) -> Steps[list[str]]:
    """The hits of each query, as JSON; a few queries a step."""
    at_once = max(1, HITS_AT_ONCE // max(body.k, body.rerank))
    written: list[str] = []
    size = 0
    for start in range(0, len(vectors), at_once):
        for hits in index.search(vectors[start : start + at_once], body.k, exact=body.exact, rerank=body.rerank):
            written.append(json.dumps([{**asdict(hit), "source": PurePath(hit.source).name} for hit in hits]))
            size += len(written[-1])
            holding.take(2 * len(written[-1]))  # by itself, and in the whole answer
            if size > limits.answer:
                message = f"the answer has more than {limits.answer:,} bytes; ask for fewer sentences."
                raise invalid("k", message, "answer_too_large")
        yield
    return written


def _placed(index: SearchIndex, made: SentenceMap, vectors: Vectors, k: int) -> Steps[dict[str, Any]]:
    (hits,) = index.search(vectors, k)
    yield
    rows = np.array([hit.row for hit in hits], dtype=np.int64)
    coordinates = made.place_rows(rows, index.vectors_of(rows)).tolist()
    x, y = made.place(vectors)[0].tolist()
    return {"x": x, "y": y, "results": [_placed_hit(hit, *at) for hit, at in zip(hits, coordinates, strict=True)]}


def _shown(name: str, made: SentenceMap) -> dict[str, Any]:
    sample = made.sample
    facts = zip(made.coordinates.tolist(), sample.texts, sample.lines, sample.sources, made.groups, strict=True)
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


def _placed_hit(hit: Hit, x: float, y: float) -> dict[str, Any]:
    source = PurePath(hit.source).name
    return {"x": x, "y": y, "text": hit.text, "score": hit.score, "line": hit.line, "source": source}
