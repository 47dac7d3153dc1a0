"""The endpoints of texts: a body's meaning, the model asked, the answer written."""

from __future__ import annotations

import asyncio
import base64
import json
from dataclasses import replace
from typing import Annotated, Any

import numpy as np
from fastapi import Body, FastAPI, Request
from fastapi.responses import Response

from nearer.encoder.comparing import unit_rows
from nearer.serve import schemas
from nearer.serve.answers import ASKING, as_json, listed, usage
from nearer.serve.app import Service
from nearer.serve.limits import check_items, check_scores, check_texts, invalid
from nearer.serve.offered import Offered
from nearer.serve.served import Encoded, Vectors

# Vectors written at a time, after which other requests get their turn
ROWS_AT_ONCE = 64


def add_endpoints(app: FastAPI, service: Service) -> None:
    @app.post("/v1/embeddings", response_model=schemas.Embeddings, responses=ASKING)
    async def embeddings(body: schemas.EmbeddingsBody, request: Request) -> Response:
        """Vectors of texts, as OpenAI's endpoint of the same name."""
        one = service.find(body.model)
        texts = await _texts(service, body.input)
        encoded = await ask_vectors(service, request, one, texts, "input", dimensions=body.dimensions)
        rows = await _written(encoded.vectors, body.encoding_format)
        head = json.dumps({"object": "list", "model": one.name, "usage": usage(encoded)})
        return Response(f'{head[:-1]}, "data": [{", ".join(rows)}]}}', media_type="application/json")

    @app.post("/v1/rerank", response_model=schemas.Reranked, responses=ASKING, response_model_exclude_none=True)
    async def rerank(body: schemas.RerankBody, request: Request) -> Response:
        """Documents by falling nearness to a query; equal ones keep their order."""
        one = service.find(body.model)
        documents = [document if isinstance(document, str) else document.text for document in body.documents]
        scores, encoded = await ask_relevance(service, request, one, body.query, documents, "documents")
        results: list[dict[str, Any]] = []
        for index in best_first(scores, body.top_n):
            results.append({"index": index, "relevance_score": float(scores[index])})
            if body.return_documents:
                results[-1]["document"] = {"text": documents[index]}
        return as_json({"model": one.name, "results": results, "usage": usage(encoded)})

    @app.post("/similarity", response_model=schemas.Similarities, responses=ASKING)
    async def similarity(body: Annotated[schemas.SimilarityBody, Body()], request: Request) -> Response:
        """Scores of pairs, or of every text of one list with every text of another."""
        one = service.find(body.model)
        if isinstance(body, schemas.PairsBody):
            scores, encoded = await _pairs(service, one, request, body)
        else:
            scores, encoded = await _matrix(service, one, request, body)
        return as_json({"scores": scores, "model": one.name, "usage": usage(encoded)})


async def _texts(service: Service, given: str | list[str] | list[int] | list[list[int]]) -> list[str]:
    """As they were sent, or decoded from token ids."""
    first = given[0]
    if isinstance(first, int):
        return await service.token_decoder.texts([given], service.limits)  # type: ignore[list-item]
    if isinstance(first, list):
        check_items(len(given), "input", service.limits)
        return await service.token_decoder.texts(given, service.limits)  # type: ignore[arg-type]
    return listed(given)  # type: ignore[arg-type]


async def ask_vectors(
    service: Service,
    request: Request,
    one: Offered,
    texts: list[str],
    param: str,
    *,
    dimensions: int | None = None,
    dimensions_param: str = "dimensions",
) -> Encoded:
    """Vectors of texts. dimensions: so many leading numbers of each, of length 1 again where whole vectors have it."""
    check_texts(texts, param, service.limits)
    whole = one.model.dimension
    if dimensions is not None and dimensions > whole:
        message = f"{dimensions} was asked for; this model's vectors have {whole}. Ask for 1 to {whole}, or for none."
        raise invalid(dimensions_param, message)
    encoded: Encoded = await service.ask(request, one.batcher, texts, lambda encoded: encoded)
    if dimensions in (None, whole):
        return encoded
    leading = encoded.vectors[:, :dimensions]
    return replace(encoded, vectors=unit_rows(leading) if one.model.unit_length else leading)


async def ask_relevance(
    service: Service, request: Request, one: Offered, query: str, documents: list[str], param: str
) -> tuple[Vectors, Encoded]:
    """Each document's score for a query. encoded: of the query, then of the distinct documents."""
    check_texts([query], "query", service.limits)
    check_texts(documents, param, service.limits)
    # equal documents share one score: equal rows of a matrix product can differ in the last bit
    places = {document: place for place, document in enumerate(dict.fromkeys(documents))}

    def scored(encoded: Encoded) -> tuple[Vectors, Encoded]:
        return one.model.score_matrix(encoded.vectors[:1], encoded.vectors[1:])[0], encoded

    unique, encoded = await service.ask(request, one.batcher, [query, *places], scored)
    return unique[[places[document] for document in documents]], encoded


def best_first(scores: Vectors, top: int | None = None) -> list[int]:
    """Places by falling score; equal scores keep their order."""
    order: list[int] = np.argsort(-scores, kind="stable")[:top].tolist()
    return order


async def _pairs(
    service: Service, one: Offered, request: Request, body: schemas.PairsBody
) -> tuple[list[float], Encoded]:
    check_items(len(body.pairs), "pairs", service.limits)
    firsts, seconds = [pair[0] for pair in body.pairs], [pair[1] for pair in body.pairs]
    for side in (firsts, seconds):
        check_texts(side, "pairs", service.limits)

    def scored(encoded: Encoded) -> tuple[list[float], Encoded]:
        half = len(firsts)
        return one.model.pair_scores(encoded.vectors[:half], encoded.vectors[half:]).tolist(), encoded

    answer: tuple[list[float], Encoded] = await service.ask(request, one.batcher, [*firsts, *seconds], scored)
    return answer


async def _matrix(service: Service, one: Offered, request: Request, body: schemas.ListsBody) -> tuple[Any, Encoded]:
    firsts, seconds = listed(body.first), listed(body.second)
    for param, side in (("first", firsts), ("second", seconds)):
        check_texts(side, param, service.limits)
    check_scores(len(firsts) * len(seconds), "second", service.limits)

    def scored(encoded: Encoded) -> tuple[Any, Encoded]:
        half = len(firsts)
        return one.model.score_matrix(encoded.vectors[:half], encoded.vectors[half:]).tolist(), encoded

    scores, encoded = await service.ask(request, one.batcher, [*firsts, *seconds], scored)
    two_texts = isinstance(body.first, str) and isinstance(body.second, str)
    return scores[0][0] if two_texts else scores, encoded


async def _written(vectors: Vectors, encoding: str) -> list[str]:
    """Each vector as OpenAI's object, in JSON."""
    shown = await in_json(vectors, encoding)
    return [f'{{"object": "embedding", "index": {place}, "embedding": {row}}}' for place, row in enumerate(shown)]


async def in_json(vectors: Vectors, encoding: str) -> list[str]:
    """Each vector in JSON: a list of numbers, or float32 in base64."""
    rows = []
    for place, vector in enumerate(vectors):
        if place and place % ROWS_AT_ONCE == 0:
            await asyncio.sleep(0)
        if encoding == "float":
            rows.append(json.dumps(vector.tolist()))
        else:
            rows.append(f'"{base64.b64encode(vector.astype("<f4").tobytes()).decode("ascii")}"')
    return rows
