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
from nearer.search.fusion import RERANKER
from nearer.search.hybrid import Candidates, add_judge, best_candidates, find_candidates, find_hits
from nearer.search.snapshot import Snapshot
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
        snapshot = index.snapshot
        setup = snapshot.manifest.setup
        judge = None
        if setup.reranker is not None and not body.rerank:
            check_items(len(queries) * max(body.k, setup.reranker.candidates), "query", service.limits)
            judge = index.rerankers.load(setup.reranker.model)

        async def found() -> list[str]:
            vectors = await _query_vectors(service, hosted, request, queries)
            holding = holding_of(request)
            if setup.is_plain or body.rerank:
                return await service.submit_steps(request, _hits(index, vectors, body, service.limits, holding))
            candidates = await service.submit_steps(request, _step_candidates(snapshot, queries, vectors, body))
            if judge is not None:
                for number, query in enumerate(queries):
                    texts = [snapshot.stored.texts[row] for row in candidates[number].rows[0].tolist()]
                    scored = await service.submit_pairs(request, hosted, judge, query, list(dict.fromkeys(texts)))
                    score_of = dict(zip(dict.fromkeys(texts), scored.vectors[:, 0].tolist(), strict=True))
                    read = np.array([score_of[text] for text in texts])
                    candidates[number] = add_judge(candidates[number], RERANKER, read)
            return await service.submit_steps(
                request, _step_hits(snapshot, candidates, body.k, service.limits, holding)
            )

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
        some = vectors[start : start + at_once]
        for hits in index.search(some, body.k, exact=body.exact, rerank=body.rerank, lexical_weight=0, reranker=False):
            written.append(_write_hits(hits, holding))
            size += len(written[-1])
            _check_size(size, limits)
        yield
    return written


def _step_candidates(
    snapshot: Snapshot, queries: list[str], vectors: Vectors, body: schemas.SearchBody
) -> Steps[list[Candidates]]:
    """Of each query, from vectors and words; where a cross-encoder reads them, as many as it reads."""
    setup, found = snapshot.manifest.setup, []
    for number, query in enumerate(queries):
        candidates = find_candidates(snapshot, [query], vectors[number : number + 1], setup, body.k, exact=body.exact)
        if setup.reranker is not None:
            candidates = best_candidates(candidates, setup.weights, max(body.k, setup.reranker.candidates))
        found.append(candidates)
        yield
    return found


def _step_hits(
    snapshot: Snapshot, candidates: list[Candidates], k: int, limits: Limits, holding: Holding
) -> Steps[list[str]]:
    """The hits of each query, as JSON."""
    written: list[str] = []
    for of_query in candidates:
        [hits] = find_hits(snapshot, of_query, snapshot.manifest.setup.weights, k)
        written.append(_write_hits(hits, holding))
        _check_size(sum(map(len, written)), limits)
        yield
    return written


def _write_hits(hits: list[Hit], holding: Holding) -> str:
    written = json.dumps([{**asdict(hit), "source": PurePath(hit.source).name} for hit in hits])
    holding.take(2 * len(written))  # by itself, and in the whole answer
    return written


def _check_size(size: int, limits: Limits) -> None:
    if size > limits.answer:
        message = f"the answer has more than {limits.answer:,} bytes; ask for fewer sentences."
        raise invalid("k", message, "answer_too_large")


def _placed(index: SearchIndex, made: SentenceMap, vectors: Vectors, k: int) -> Steps[dict[str, Any]]:
    (hits,) = index.search(vectors, k, lexical_weight=0, reranker=False)
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
