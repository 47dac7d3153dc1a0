"""Bodies of requests and answers as Cohere's and TEI's (text-embeddings-inference) clients know them."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, Field

from nearer.serve.schemas import Body, OneOrSeveral, Positive, ServedName, Text, Texts

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
