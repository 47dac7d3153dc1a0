"""The endpoints of texts: embeddings, reranking, similarity."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Annotated, Any

from fastapi import Body, FastAPI, Request
from fastapi.responses import Response

from nearer.encoder.comparing import unit_rows
from nearer.serve import schemas
from nearer.serve.fairness import holding_of
from nearer.serve.limits import SCORE_COST, check_items, check_scores, check_texts, invalid
from nearer.serve.model import Encoded
from nearer.serve.responses import ASKING, Rows, as_list, count_usage, json_response, write_rows
from nearer.serve.scoring import ask_relevance, order_by_score, step_matrix_rows, step_pair_scores
from nearer.serve.service import HostedModel, Service


def add_text_endpoints(app: FastAPI, service: Service) -> None:
    @app.post("/v1/embeddings", response_model=schemas.Embeddings, responses=ASKING)
    async def embeddings(body: schemas.EmbeddingsBody, request: Request) -> Response:
        """Vectors of texts, as OpenAI's endpoint of the same name."""
        hosted = service.find(body.model)
        texts = await _read_texts(service, body.input)
        encoded = await ask_vectors(service, request, hosted, texts, "input", dimensions=body.dimensions)
        head = json.dumps({"object": "list", "model": hosted.name, "usage": count_usage(encoded)})
        data = Rows('"data": [', encoded.vectors, body.encoding_format, "]", _as_object)
        return write_rows(service, request, f"{head[:-1]}, ", [data], "}")

    @app.post("/v1/rerank", response_model=schemas.Reranked, responses=ASKING, response_model_exclude_none=True)
    async def rerank(body: schemas.RerankBody, request: Request) -> Response:
        """Documents by falling nearness to a query; equal ones keep their order."""
        hosted = service.find(body.model)
        documents = [document if isinstance(document, str) else document.text for document in body.documents]
        scores, encoded = await ask_relevance(service, request, hosted, body.query, documents, "documents")
        results: list[dict[str, Any]] = []
        for index in order_by_score(scores, body.top_n):
            results.append({"index": index, "relevance_score": float(scores[index])})
            if body.return_documents:
                results[-1]["document"] = {"text": documents[index]}
        return json_response({"model": hosted.name, "results": results, "usage": count_usage(encoded)})

    @app.post("/similarity", response_model=schemas.Similarities, responses=ASKING)
    async def similarity(body: Annotated[schemas.SimilarityBody, Body()], request: Request) -> Response:
        """Scores of pairs, or of every text of one list with every text of another."""
        hosted = service.find(body.model)
        if isinstance(body, schemas.PairsBody):
            scores, encoded = await _score_pairs(service, hosted, request, body)
        else:
            scores, encoded = await _score_lists(service, hosted, request, body)
        rest = json.dumps({"model": hosted.name, "usage": count_usage(encoded)})
        return Response(f'{{"scores": {scores}, {rest[1:]}', media_type="application/json")


def _as_object(number: int, row: str) -> str:
    """OpenAI's, of a vector."""
    return f'{{"object": "embedding", "index": {number}, "embedding": {row}}}'


async def _read_texts(service: Service, given: str | list[str] | list[int] | list[list[int]]) -> list[str]:
    """As they were sent, or decoded from token ids."""
    first = given[0]
    if isinstance(first, int):
        return await service.token_decoder.decode([given], service.limits)  # type: ignore[list-item]
    if isinstance(first, list):
        check_items(len(given), "input", service.limits)
        return await service.token_decoder.decode(given, service.limits)  # type: ignore[arg-type]
    return as_list(given)  # type: ignore[arg-type]


async def ask_vectors(
    service: Service,
    request: Request,
    hosted: HostedModel,
    texts: list[str],
    param: str,
    *,
    dimensions: int | None = None,
    dimensions_param: str = "dimensions",
) -> Encoded:
    """Vectors of texts. dimensions: so many leading numbers of each, of length 1 again where whole vectors have it."""
    check_texts(texts, param, service.limits)
    whole = hosted.model.dimension
    if dimensions is not None and dimensions > whole:
        message = f"{dimensions} was asked for; this model's vectors have {whole}. Ask for 1 to {whole}, or for none."
        raise invalid(dimensions_param, message)
    encoded = await service.encode(request, hosted, texts)
    if dimensions in (None, whole):
        return encoded
    leading = encoded.vectors[:, :dimensions]
    return replace(encoded, vectors=unit_rows(leading) if hosted.model.unit_length else leading)


async def _score_pairs(
    service: Service, hosted: HostedModel, request: Request, body: schemas.PairsBody
) -> tuple[str, Encoded]:
    check_items(len(body.pairs), "pairs", service.limits)
    firsts, seconds = [pair[0] for pair in body.pairs], [pair[1] for pair in body.pairs]
    for side in (firsts, seconds):
        check_texts(side, "pairs", service.limits)

    async def asked() -> tuple[str, Encoded]:
        encoded = await service.submit_texts(request, hosted, [*firsts, *seconds])
        first, second = encoded.vectors[: len(firsts)], encoded.vectors[len(firsts) :]
        scores = await service.submit_steps(request, step_pair_scores(hosted.model, first, second))
        return json.dumps(scores, allow_nan=False), encoded

    return await service.wait(request, asked())


async def _score_lists(
    service: Service, hosted: HostedModel, request: Request, body: schemas.ListsBody
) -> tuple[str, Encoded]:
    firsts, seconds = as_list(body.first), as_list(body.second)
    for param, side in (("first", firsts), ("second", seconds)):
        check_texts(side, param, service.limits)
    count = len(firsts) * len(seconds)
    check_scores(count, "second", service.limits)
    holding_of(request).take(SCORE_COST * count)

    async def asked() -> tuple[list[str], Encoded]:
        encoded = await service.submit_texts(request, hosted, [*firsts, *seconds])
        first, second = encoded.vectors[: len(firsts)], encoded.vectors[len(firsts) :]
        return await service.submit_steps(request, step_matrix_rows(hosted.model, first, second)), encoded

    rows, encoded = await service.wait(request, asked())
    two_texts = isinstance(body.first, str) and isinstance(body.second, str)
    return rows[0][1:-1] if two_texts else f"[{', '.join(rows)}]", encoded
