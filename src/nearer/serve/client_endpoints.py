"""Endpoints in the shapes of other services, so that their clients need another address only: Cohere's, TEI's.

Jina's clients use `/v1/rerank` and `/v1/embeddings` as they are.
"""

from __future__ import annotations

import json
import uuid
from typing import Any

import numpy as np
from fastapi import FastAPI, Request
from fastapi.responses import Response

from nearer.encoder.comparing import unit_rows
from nearer.serve import client_schemas as schemas
from nearer.serve.answers import ASKED, as_json, errors, listed
from nearer.serve.app import Service
from nearer.serve.endpoints import Rows, ask_relevance, ask_vectors, best_first, written
from nearer.serve.limits import Refusal, invalid
from nearer.serve.offered import Offered
from nearer.serve.served import Encoded

COHERE_ASKING = errors(*ASKED, shape=schemas.CohereErrorBody)
TEI_ASKING = errors(*ASKED, shape=schemas.TeiErrorBody)


def add_client_endpoints(app: FastAPI, service: Service) -> None:
    _add_cohere(app, service)
    _add_tei(app, service)


def _add_cohere(app: FastAPI, service: Service) -> None:
    @app.post("/v2/embed", response_model=schemas.CohereEmbeddings, responses=COHERE_ASKING)
    async def cohere_embed(body: schemas.CohereEmbedBody, request: Request) -> Response:
        """Vectors of texts, as Cohere's endpoint of the same name."""
        one = service.find(body.model)
        encoded = await ask_vectors(
            service,
            request,
            one,
            body.texts,
            "texts",
            dimensions=body.output_dimension,
            dimensions_param="output_dimension",
        )
        if body.truncate == "NONE":
            _refuse_cut(one, encoded, "texts")
        head = {"id": str(uuid.uuid4()), "response_type": "embeddings_by_type", "texts": body.texts}
        kinds = list(dict.fromkeys(body.embedding_types or ["float"]))
        by_type = [Rows(f'"{kind}": [', encoded.vectors, kind, "]" if kind == kinds[-1] else "], ") for kind in kinds]
        start = json.dumps({**head, "meta": _cohere_meta(one, encoded)})
        return written(service, request, f'{start[:-1]}, "embeddings": {{', by_type, "}}")

    @app.post("/v2/rerank", response_model=schemas.CohereReranked, responses=COHERE_ASKING)
    async def cohere_rerank(body: schemas.CohereRerankBody, request: Request) -> Response:
        """Documents by falling nearness to a query, as Cohere's endpoint of the same name."""
        one = service.find(body.model)
        scores, encoded = await ask_relevance(service, request, one, body.query, body.documents, "documents")
        results = [
            {"index": index, "relevance_score": float(scores[index])} for index in best_first(scores, body.top_n)
        ]
        return as_json({"id": str(uuid.uuid4()), "results": results, "meta": _cohere_meta(one, encoded)})


def _add_tei(app: FastAPI, service: Service) -> None:
    @app.post("/embed", response_model=list[list[float]], responses=TEI_ASKING)
    async def tei_embed(body: schemas.TeiEmbedBody, request: Request) -> Response:
        """Vectors of texts by the first model, as text-embeddings-inference gives them."""
        one = service.find(None)
        if body.normalize is False and one.model.unit_length:
            raise invalid("normalize", "this model's vectors have length 1; leave the field out.")
        texts = listed(body.inputs)
        encoded = await ask_vectors(service, request, one, texts, "inputs", dimensions=body.dimensions)
        if body.truncate is False:
            _refuse_cut(one, encoded, "inputs")
        vectors = encoded.vectors if body.normalize is False else unit_rows(encoded.vectors)
        return written(service, request, "", [Rows("[", vectors, "float", "]")], "")

    @app.post("/rerank", response_model=list[schemas.TeiRank], responses=TEI_ASKING, response_model_exclude_none=True)
    async def tei_rerank(body: schemas.TeiRerankBody, request: Request) -> Response:
        """Texts by falling nearness to a query by the first model, as text-embeddings-inference gives them."""
        one = service.find(None)
        scores, encoded = await ask_relevance(service, request, one, body.query, body.texts, "texts")
        if body.truncate is False:
            _refuse_cut(one, encoded, "texts")
        ranks: list[dict[str, Any]] = []
        for index in best_first(scores):
            ranks.append({"index": index, "score": float(scores[index])})
            if body.return_text:
                ranks[-1]["text"] = body.texts[index]
        return as_json(ranks)


def _refuse_cut(one: Offered, encoded: Encoded, param: str) -> None:
    """Where a client wants no text to be cut."""
    cut = int(np.count_nonzero(encoded.cut))
    if cut:
        texts = "1 text is" if cut == 1 else f"{cut} texts are"
        message = f"{param}: {texts} longer than the {one.model.max_length} tokens that the model reads."
        raise Refusal(422, message, code="text_too_long", param=param)


def _cohere_meta(one: Offered, encoded: Encoded) -> dict[str, Any]:
    cut = int(np.count_nonzero(encoded.cut))
    warnings = [f"{cut} of the texts were cut at {one.model.max_length} tokens"] if cut else []
    return {"tokens": {"input_tokens": int(encoded.tokens.sum())}, "warnings": warnings}
