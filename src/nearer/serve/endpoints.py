"""The endpoints: a body's meaning, the model asked, the answer written."""

from __future__ import annotations

import asyncio
import base64
import json
from dataclasses import asdict
from pathlib import PurePath
from typing import Annotated, Any

import numpy as np
from fastapi import Body, FastAPI, Request
from fastapi.responses import PlainTextResponse, Response

from nearer.errors import InputError, SettingError
from nearer.search import Hit, SearchIndex
from nearer.serve import schemas
from nearer.serve.app import Service
from nearer.serve.limits import Refusal, check_items, check_scores, check_texts, invalid
from nearer.serve.served import Encoded, Vectors

# Vectors written at a time, after which other requests get their turn
ROWS_AT_ONCE = 64


def _errors(*statuses: int) -> dict[int | str, dict[str, Any]]:
    said = {
        400: "The body is not JSON.",
        401: "The key is missing or wrong.",
        404: "Another model than the served one was asked for.",
        408: "The body did not come in time.",
        413: "The body is too large.",
        415: "The body is not application/json.",
        421: "The service was called by another machine's name.",
        422: "The body does not say what is needed, or asks for more than the limits.",
        500: "A defect; the service's log tells it.",
        503: "Too much is waiting; try again.",
    }
    return {status: {"model": schemas.ErrorBody, "description": said[status]} for status in statuses}


READING = _errors(401, 421, 503)
ASKING = _errors(400, 401, 404, 408, 413, 415, 421, 422, 500, 503)


def add_endpoints(app: FastAPI, service: Service) -> None:
    @app.get("/health", responses=_errors(421))
    async def health() -> schemas.Health:
        """Whether the service answers. Asks for no key."""
        return schemas.Health(status="ok", model=service.model.name, waiting_texts=service.batcher.waiting)

    @app.get("/metrics", responses=READING, response_class=PlainTextResponse)
    async def metrics(request: Request) -> PlainTextResponse:
        """Counts in Prometheus' text format."""
        text = service.metrics.text(waiting=service.batcher.waiting, open_requests=service.open_requests)
        return PlainTextResponse(text, media_type="text/plain; version=0.0.4")

    @app.get("/v1/models", responses=READING)
    async def models() -> schemas.Models:
        """The one model that is served."""
        card = schemas.ModelCard(
            id=service.model.name,
            object="model",
            created=service.started,
            owned_by="nearer",
            dimensions=service.model.dimension,
            max_tokens=service.model.max_length,
            scoring=service.model.model.scoring,
        )
        return schemas.Models(object="list", data=[card])

    @app.post("/v1/embeddings", response_model=schemas.Embeddings, responses=ASKING)
    async def embeddings(body: schemas.EmbeddingsBody, request: Request) -> Response:
        """Vectors of texts, as OpenAI's endpoint of the same name."""
        service.check_name(body.model)
        texts = _listed(body.input)
        check_texts(texts, "input", service.limits)
        dimension = service.model.dimension
        if body.dimensions not in (None, dimension):
            raise invalid("dimensions", f"{body.dimensions} was asked for; this model's vectors have {dimension}.")
        encoded: Encoded = await service.ask(request, texts, lambda encoded: encoded)
        rows = await _written(encoded.vectors, body.encoding_format)
        head = json.dumps({"object": "list", "model": service.model.name, "usage": _usage(encoded)})
        return Response(f'{head[:-1]}, "data": [{", ".join(rows)}]}}', media_type="application/json")

    @app.post("/v1/rerank", response_model=schemas.Reranked, responses=ASKING, response_model_exclude_none=True)
    async def rerank(body: schemas.RerankBody, request: Request) -> Response:
        """Documents by falling nearness to a query; equal ones keep their order."""
        service.check_name(body.model)
        documents = [document if isinstance(document, str) else document.text for document in body.documents]
        check_texts([body.query], "query", service.limits)
        check_texts(documents, "documents", service.limits)
        # equal documents share one score: equal rows of a matrix product can differ in the last bit
        places = {document: place for place, document in enumerate(dict.fromkeys(documents))}

        def scored(encoded: Encoded) -> tuple[Vectors, Encoded]:
            return service.model.score_matrix(encoded.vectors[:1], encoded.vectors[1:])[0], encoded

        unique, encoded = await service.ask(request, [body.query, *places], scored)
        scores = unique[[places[document] for document in documents]]
        results: list[dict[str, Any]] = []
        for index in np.argsort(-scores, kind="stable")[: body.top_n].tolist():
            results.append({"index": index, "relevance_score": float(scores[index])})
            if body.return_documents:
                results[-1]["document"] = {"text": documents[index]}
        return _json({"model": service.model.name, "results": results, "usage": _usage(encoded)})

    @app.post("/similarity", response_model=schemas.Similarities, responses=ASKING)
    async def similarity(body: Annotated[schemas.SimilarityBody, Body()], request: Request) -> Response:
        """Scores of pairs, or of every text of one list with every text of another."""
        service.check_name(body.model)
        if isinstance(body, schemas.PairsBody):
            scores, encoded = await _pairs(service, request, body)
        else:
            scores, encoded = await _matrix(service, request, body)
        return _json({"scores": scores, "model": service.model.name, "usage": _usage(encoded)})

    if service.index is not None:
        _add_search(app, service, service.index)


def _add_search(app: FastAPI, service: Service, index: SearchIndex) -> None:
    @app.post("/v1/search", response_model=schemas.Found, responses=ASKING)
    async def search(body: schemas.SearchBody, request: Request) -> Response:
        """The sentences of the index nearest to a text."""
        service.check_name(body.model)
        queries = _listed(body.query)
        check_texts(queries, "query", service.limits)
        check_items(body.k, "k", service.limits)
        check_items(body.rerank, "rerank", service.limits)
        check_scores(len(queries) * max(body.k, body.rerank), "k", service.limits)
        # a job without texts: the index knows the prompt and precision of its queries, the thread owns the model
        vectors: Vectors = await service.ask(request, [], lambda _: index.model.encode(queries))

        def nearest() -> list[list[Hit]]:
            return index.search(vectors, body.k, exact=body.exact, rerank=body.rerank)

        try:
            async with service.searching:
                found = await asyncio.to_thread(nearest)
        except (InputError, SettingError) as error:
            raise Refusal(422, str(error), code="invalid_value") from None
        results = [[{**asdict(hit), "source": PurePath(hit.source).name} for hit in hits] for hits in found]
        return _json({"results": results[0] if isinstance(body.query, str) else results, "model": service.model.name})


async def _pairs(service: Service, request: Request, body: schemas.PairsBody) -> tuple[list[float], Encoded]:
    check_items(len(body.pairs), "pairs", service.limits)
    firsts, seconds = [pair[0] for pair in body.pairs], [pair[1] for pair in body.pairs]
    for side in (firsts, seconds):
        check_texts(side, "pairs", service.limits)

    def scored(encoded: Encoded) -> tuple[list[float], Encoded]:
        half = len(firsts)
        return service.model.pair_scores(encoded.vectors[:half], encoded.vectors[half:]).tolist(), encoded

    answer: tuple[list[float], Encoded] = await service.ask(request, [*firsts, *seconds], scored)
    return answer


async def _matrix(service: Service, request: Request, body: schemas.ListsBody) -> tuple[Any, Encoded]:
    firsts, seconds = _listed(body.first), _listed(body.second)
    for param, side in (("first", firsts), ("second", seconds)):
        check_texts(side, param, service.limits)
    check_scores(len(firsts) * len(seconds), "second", service.limits)

    def scored(encoded: Encoded) -> tuple[Any, Encoded]:
        half = len(firsts)
        return service.model.score_matrix(encoded.vectors[:half], encoded.vectors[half:]).tolist(), encoded

    scores, encoded = await service.ask(request, [*firsts, *seconds], scored)
    one = isinstance(body.first, str) and isinstance(body.second, str)
    return scores[0][0] if one else scores, encoded


async def _written(vectors: Vectors, encoding: str) -> list[str]:
    """Each vector as OpenAI's object, in JSON."""
    rows = []
    for place, vector in enumerate(vectors):
        if place and place % ROWS_AT_ONCE == 0:
            await asyncio.sleep(0)
        if encoding == "float":
            shown = json.dumps(vector.tolist())
        else:
            shown = f'"{base64.b64encode(vector.astype("<f4").tobytes()).decode("ascii")}"'
        rows.append(f'{{"object": "embedding", "index": {place}, "embedding": {shown}}}')
    return rows


def _usage(encoded: Encoded) -> dict[str, int]:
    tokens = int(encoded.tokens.sum())
    return {"prompt_tokens": tokens, "total_tokens": tokens, "cut_texts": int(encoded.cut.sum())}


def _listed(texts: str | list[str]) -> list[str]:
    return [texts] if isinstance(texts, str) else texts


def _json(content: dict[str, Any]) -> Response:
    return Response(json.dumps(content, allow_nan=False), media_type="application/json")
