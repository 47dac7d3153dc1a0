"""The endpoints of texts: a body's meaning, the model asked, the answer written."""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any

import numpy as np
from fastapi import Body, FastAPI, Request
from fastapi.responses import Response, StreamingResponse

from nearer.encoder.comparing import unit_rows
from nearer.serve import schemas
from nearer.serve.answers import ASKING, as_json, listed, usage
from nearer.serve.app import Service
from nearer.serve.guard import holding_of
from nearer.serve.limits import SCORE_COST, check_items, check_scores, check_texts, invalid
from nearer.serve.offered import Offered
from nearer.serve.scoring import matrix_rows, pair_scores, relevance
from nearer.serve.served import Encoded, Vectors

# Vectors written at a time, after which other requests get their turn
ROWS_AT_ONCE = 16


def add_endpoints(app: FastAPI, service: Service) -> None:
    @app.post("/v1/embeddings", response_model=schemas.Embeddings, responses=ASKING)
    async def embeddings(body: schemas.EmbeddingsBody, request: Request) -> Response:
        """Vectors of texts, as OpenAI's endpoint of the same name."""
        one = service.find(body.model)
        texts = await _texts(service, body.input)
        encoded = await ask_vectors(service, request, one, texts, "input", dimensions=body.dimensions)
        head = json.dumps({"object": "list", "model": one.name, "usage": usage(encoded)})
        data = Rows('"data": [', encoded.vectors, body.encoding_format, "]", _as_object)
        return written(service, request, f"{head[:-1]}, ", [data], "}")

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
        rest = json.dumps({"model": one.name, "usage": usage(encoded)})
        return Response(f'{{"scores": {scores}, {rest[1:]}', media_type="application/json")


def _as_object(place: int, row: str) -> str:
    """OpenAI's, of a vector."""
    return f'{{"object": "embedding", "index": {place}, "embedding": {row}}}'


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
    encoded = await service.ask(request, one, texts)
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

    async def asked() -> tuple[Vectors, Encoded]:
        encoded = await service.encoded(request, one, [query, *places])
        scores = await service.worked(request, relevance(one.model, encoded.vectors[:1], encoded.vectors[1:]))
        return scores, encoded

    unique, encoded = await service.wait(request, asked())
    return unique[[places[document] for document in documents]], encoded


def best_first(scores: Vectors, top: int | None = None) -> list[int]:
    """Places by falling score; equal scores keep their order."""
    order: list[int] = np.argsort(-scores, kind="stable")[:top].tolist()
    return order


async def _pairs(service: Service, one: Offered, request: Request, body: schemas.PairsBody) -> tuple[str, Encoded]:
    check_items(len(body.pairs), "pairs", service.limits)
    firsts, seconds = [pair[0] for pair in body.pairs], [pair[1] for pair in body.pairs]
    for side in (firsts, seconds):
        check_texts(side, "pairs", service.limits)

    async def asked() -> tuple[str, Encoded]:
        encoded = await service.encoded(request, one, [*firsts, *seconds])
        first, second = encoded.vectors[: len(firsts)], encoded.vectors[len(firsts) :]
        scores = await service.worked(request, pair_scores(one.model, first, second))
        return json.dumps(scores, allow_nan=False), encoded

    return await service.wait(request, asked())


async def _matrix(service: Service, one: Offered, request: Request, body: schemas.ListsBody) -> tuple[str, Encoded]:
    firsts, seconds = listed(body.first), listed(body.second)
    for param, side in (("first", firsts), ("second", seconds)):
        check_texts(side, param, service.limits)
    count = len(firsts) * len(seconds)
    check_scores(count, "second", service.limits)
    holding_of(request).take(SCORE_COST * count)

    async def asked() -> tuple[list[str], Encoded]:
        encoded = await service.encoded(request, one, [*firsts, *seconds])
        first, second = encoded.vectors[: len(firsts)], encoded.vectors[len(firsts) :]
        return await service.worked(request, matrix_rows(one.model, first, second)), encoded

    rows, encoded = await service.wait(request, asked())
    two_texts = isinstance(body.first, str) and isinstance(body.second, str)
    return rows[0][1:-1] if two_texts else f"[{', '.join(rows)}]", encoded


def written(service: Service, request: Request, start: str, parts: Sequence[Rows], end: str) -> Response:
    """An answer with many vectors: it is written while it is sent, so that it is never held as a whole."""

    async def pieces() -> AsyncIterator[str]:
        client = holding_of(request).client
        yield start
        for part in parts:
            yield part.start
            for first in range(0, len(part.vectors), ROWS_AT_ONCE):
                async with service.long_steps.turn(client):
                    rows = ", ".join(part.rows(first, first + ROWS_AT_ONCE))
                yield f", {rows}" if first else rows
            yield part.end
        yield end

    if sum(len(part.vectors) for part in parts) <= ROWS_AT_ONCE:
        rows = "".join(part.start + ", ".join(part.rows(0, ROWS_AT_ONCE)) + part.end for part in parts)
        return Response(start + rows + end, media_type="application/json")
    return StreamingResponse(pieces(), media_type="application/json")


@dataclass(frozen=True)
class Rows:
    """Vectors in JSON between a start and an end: lists of numbers, or float32 in base64. wrap: what is made of each,
    by its place."""

    start: str
    vectors: Vectors
    encoding: str
    end: str
    wrap: Callable[[int, str], str] = lambda _, row: row

    def rows(self, first: int, stop: int) -> list[str]:
        some = self.vectors[first:stop]
        if self.encoding == "float":
            shown = [json.dumps(row) for row in some.tolist()]
        else:
            shown = [f'"{base64.b64encode(row.tobytes()).decode("ascii")}"' for row in some.astype("<f4")]
        return [self.wrap(place, row) for place, row in enumerate(shown, first)]
