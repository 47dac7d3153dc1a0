"""Endpoints in the shapes of other services, so that their clients need only another address: Cohere's and those of
TEI (text-embeddings-inference). First the bodies of requests and answers, then the endpoints.

Jina's clients use `/v1/rerank` and `/v1/embeddings` as they are.
"""

from __future__ import annotations

import json
import uuid
from typing import Annotated, Any, Literal

import numpy as np
from fastapi import FastAPI, Request
from fastapi.responses import Response
from pydantic import BaseModel, Field

from nearer.encoder.comparing import unit_rows
from nearer.serve.limits import Refusal, invalid
from nearer.serve.model import Encoded
from nearer.serve.responses import ASKED, Rows, as_list, describe_errors, json_response, write_rows
from nearer.serve.schemas import Body, OneOrSeveral, Positive, ServedName, Text, Texts
from nearer.serve.scoring import ask_relevance, order_by_score
from nearer.serve.service import HostedModel, Service
from nearer.serve.text_endpoints import ask_vectors

# Fields that some clients send as null. What they would ask for cannot be had, so nothing else is taken.
OnlyNull = Annotated[None, Field(description="Null: this cannot be asked for.")]
Cut = Annotated[
    bool | None,
    Field(strict=True, description="False: a text longer than the model reads is refused, not cut."),
]
Direction = Annotated[Literal["right", "Right"] | None, Field(description="Texts are cut at their ends.")]


class CohereEmbedBody(Body):
    model: ServedName
    texts: Texts
    input_type: Annotated[
        Literal["search_document", "search_query", "classification", "clustering"] | None,
        Field(description="Taken for Cohere's clients; not used: the model's default prompt holds."),
    ] = None
    embedding_types: Annotated[list[Literal["float", "base64"]] | None, Field(min_length=1)] = None
    output_dimension: Annotated[Positive | None, Field(description="So many leading numbers of each vector.")] = None
    truncate: Annotated[
        Literal["END", "NONE"] | None, Field(description="NONE: a text longer than the model reads is refused.")
    ] = None
    images: OnlyNull = None
    inputs: OnlyNull = None
    max_tokens: OnlyNull = None


class CohereRerankBody(Body):
    model: ServedName
    query: Text
    documents: Texts
    top_n: Annotated[Positive | None, Field(description="The best so many alone.")] = None
    max_tokens_per_doc: OnlyNull = None


class CohereTokens(BaseModel):
    input_tokens: int


class CohereMeta(BaseModel):
    tokens: CohereTokens
    warnings: Annotated[list[str], Field(description="How many texts were cut, if any.")]


class CohereEmbeddings(BaseModel):
    id: str
    response_type: Literal["embeddings_by_type"]
    embeddings: Annotated[
        dict[Literal["float", "base64"], list[list[float]] | list[str]],
        Field(description="By type, in the texts' order."),
    ]
    texts: list[str]
    meta: CohereMeta


class CohereResult(BaseModel):
    index: int
    relevance_score: float


class CohereReranked(BaseModel):
    id: str
    results: list[CohereResult]
    meta: CohereMeta


class CohereErrorBody(BaseModel):
    message: str


class TeiEmbedBody(Body):
    inputs: OneOrSeveral
    normalize: Annotated[bool | None, Field(strict=True, description="Vectors of length 1, by default.")] = None
    dimensions: Annotated[Positive | None, Field(description="So many leading numbers of each vector.")] = None
    truncate: Cut = None
    truncation_direction: Direction = None
    prompt_name: OnlyNull = None


class TeiRerankBody(Body):
    query: Text
    texts: Texts
    raw_scores: Annotated[
        bool | None, Field(strict=True, description="Taken for TEI's clients; scores are the model's own either way.")
    ] = None
    return_text: Annotated[bool | None, Field(strict=True, description="Repeat each text in the answer.")] = None
    truncate: Cut = None
    truncation_direction: Direction = None


class TeiRank(BaseModel):
    index: int
    score: float
    text: str | None = None


class TeiErrorBody(BaseModel):
    error: str
    error_type: Literal["Backend", "Overloaded", "Validation"]


COHERE_ASKING = describe_errors(*ASKED, shape=CohereErrorBody)
TEI_ASKING = describe_errors(*ASKED, shape=TeiErrorBody)


def add_client_endpoints(app: FastAPI, service: Service) -> None:
    _add_cohere(app, service)
    _add_tei(app, service)


def _add_cohere(app: FastAPI, service: Service) -> None:
    @app.post("/v2/embed", response_model=CohereEmbeddings, responses=COHERE_ASKING)
    async def cohere_embed(body: CohereEmbedBody, request: Request) -> Response:
        """Vectors of texts, as Cohere's endpoint of the same name."""
        hosted = service.find(body.model)
        encoded = await ask_vectors(
            service,
            request,
            hosted,
            body.texts,
            "texts",
            dimensions=body.output_dimension,
            dimensions_param="output_dimension",
        )
        if body.truncate == "NONE":
            _refuse_cut(hosted, encoded, "texts")
        head = {"id": str(uuid.uuid4()), "response_type": "embeddings_by_type", "texts": body.texts}
        kinds = list(dict.fromkeys(body.embedding_types or ["float"]))
        by_type = [Rows(f'"{kind}": [', encoded.vectors, kind, "]" if kind == kinds[-1] else "], ") for kind in kinds]
        start = json.dumps({**head, "meta": _cohere_meta(hosted, encoded)})
        return write_rows(service, request, f'{start[:-1]}, "embeddings": {{', by_type, "}}")

    @app.post("/v2/rerank", response_model=CohereReranked, responses=COHERE_ASKING)
    async def cohere_rerank(body: CohereRerankBody, request: Request) -> Response:
        """Documents by falling nearness to a query, as Cohere's endpoint of the same name."""
        hosted = service.find(body.model)
        scores, encoded = await ask_relevance(service, request, hosted, body.query, body.documents, "documents")
        results = [
            {"index": index, "relevance_score": float(scores[index])} for index in order_by_score(scores, body.top_n)
        ]
        return json_response({"id": str(uuid.uuid4()), "results": results, "meta": _cohere_meta(hosted, encoded)})


def _add_tei(app: FastAPI, service: Service) -> None:
    @app.post("/embed", response_model=list[list[float]], responses=TEI_ASKING)
    async def tei_embed(body: TeiEmbedBody, request: Request) -> Response:
        """Vectors of texts by the first model, as text-embeddings-inference gives them."""
        hosted = service.find(None)
        if body.normalize is False and hosted.model.unit_length:
            raise invalid("normalize", "this model's vectors have length 1; leave the field out.")
        texts = as_list(body.inputs)
        encoded = await ask_vectors(service, request, hosted, texts, "inputs", dimensions=body.dimensions)
        if body.truncate is False:
            _refuse_cut(hosted, encoded, "inputs")
        vectors = encoded.vectors if body.normalize is False else unit_rows(encoded.vectors)
        return write_rows(service, request, "", [Rows("[", vectors, "float", "]")], "")

    @app.post("/rerank", response_model=list[TeiRank], responses=TEI_ASKING, response_model_exclude_none=True)
    async def tei_rerank(body: TeiRerankBody, request: Request) -> Response:
        """Texts by falling nearness to a query by the first model, as text-embeddings-inference gives them."""
        hosted = service.find(None)
        scores, encoded = await ask_relevance(service, request, hosted, body.query, body.texts, "texts")
        if body.truncate is False:
            _refuse_cut(hosted, encoded, "texts")
        ranks: list[dict[str, Any]] = []
        for index in order_by_score(scores):
            ranks.append({"index": index, "score": float(scores[index])})
            if body.return_text:
                ranks[-1]["text"] = body.texts[index]
        return json_response(ranks)


def _refuse_cut(hosted: HostedModel, encoded: Encoded, param: str) -> None:
    """Where a client wants no text to be cut."""
    cut = int(np.count_nonzero(encoded.cut))
    if cut:
        texts = "1 text is" if cut == 1 else f"{cut} texts are"
        message = f"{param}: {texts} longer than the {hosted.model.max_length} tokens that the model reads."
        raise Refusal(422, message, code="text_too_long", param=param)


def _cohere_meta(hosted: HostedModel, encoded: Encoded) -> dict[str, Any]:
    cut = int(np.count_nonzero(encoded.cut))
    warnings = [f"{cut} of the texts were cut at {hosted.model.max_length} tokens"] if cut else []
    return {"tokens": {"input_tokens": int(encoded.tokens.sum())}, "warnings": warnings}
