"""The endpoints of texts: a body's meaning, the model asked, the answer written."""

from __future__ import annotations

import asyncio
import base64
import json
from typing import Annotated, Any

import numpy as np
from fastapi import Body, FastAPI, Request
from fastapi.responses import Response

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
        texts = listed(body.input)
        check_texts(texts, "input", service.limits)
        dimension = one.model.dimension
        if body.dimensions not in (None, dimension):
            raise invalid("dimensions", f"{body.dimensions} was asked for; this model's vectors have {dimension}.")
        encoded: Encoded = await service.ask(request, one.batcher, texts, lambda encoded: encoded)
        rows = await _written(encoded.vectors, body.encoding_format)
        head = json.dumps({"object": "list", "model": one.name, "usage": usage(encoded)})
        return Response(f'{head[:-1]}, "data": [{", ".join(rows)}]}}', media_type="application/json")

    @app.post("/v1/rerank", response_model=schemas.Reranked, responses=ASKING, response_model_exclude_none=True)
    async def rerank(body: schemas.RerankBody, request: Request) -> Response:
        """Documents by falling nearness to a query; equal ones keep their order."""
        one = service.find(body.model)
        documents = [document if isinstance(document, str) else document.text for document in body.documents]
        check_texts([body.query], "query", service.limits)
        check_texts(documents, "documents", service.limits)
        # equal documents share one score: equal rows of a matrix product can differ in the last bit
        places = {document: place for place, document in enumerate(dict.fromkeys(documents))}

        def scored(encoded: Encoded) -> tuple[Vectors, Encoded]:
            return one.model.score_matrix(encoded.vectors[:1], encoded.vectors[1:])[0], encoded

        unique, encoded = await service.ask(request, one.batcher, [body.query, *places], scored)
        scores = unique[[places[document] for document in documents]]
        results: list[dict[str, Any]] = []
        for index in np.argsort(-scores, kind="stable")[: body.top_n].tolist():
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
