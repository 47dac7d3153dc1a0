"""Bodies of requests and answers, as the service's OpenAPI description shows them."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Discriminator, Field, Tag, model_validator

LARGEST_TOKEN_ID = 100_276  # of cl100k_base, see `token_ids`
Text = Annotated[str, Field(min_length=1)]


def _number(value: Any) -> Any:
    """JSON's true and "3" are no numbers, though Python and pydantic could make some of them."""
    if isinstance(value, (bool, str)):
        raise ValueError("a whole number is needed")
    return value


# 2⁵³: below it every whole number is exact in JSON, so that the description says the same bound
Count = Annotated[int, Field(ge=0, lt=2**53), BeforeValidator(_number)]
Positive = Annotated[int, Field(ge=1, lt=2**53), BeforeValidator(_number)]
# fail_fast: of a million wrong items the first is told, and the others are not looked at
Several = Field(min_length=1, fail_fast=True)
Texts = Annotated[list[Text], Several]
# Which of two shapes is meant is decided by one look, so that an error tells of that one alone. These names of shapes
# appear in pydantic's errors, and are left out of ours.
ONE, SEVERAL, IDS, ID_LISTS, PLAIN, OBJECT, PAIRS, LISTS = SHAPES = (
    *("one-", "several-", "ids-", "id-lists-", "plain-", "object-", "pairs-", "lists-"),
)
OneOrSeveral = Annotated[
    Annotated[Text, Tag(ONE)] | Annotated[Texts, Tag(SEVERAL)],
    Discriminator(lambda value: SEVERAL if isinstance(value, list) else ONE),
]


def _input_shape(value: Any) -> str:
    if not isinstance(value, list):
        return ONE
    first = value[0] if value else ""
    if isinstance(first, list):
        return ID_LISTS
    return IDS if isinstance(first, (int, float)) else SEVERAL


def _whole(ids: Any) -> Any:
    """JSON's 58.0 is the whole number 58."""
    if isinstance(ids, list) and float in set(map(type, ids)):
        return [int(one) if isinstance(one, float) and one.is_integer() else one for one in ids]
    return ids


# strict: a Python function for each of thousands of ids would take long
TokenId = Annotated[int, Field(strict=True, ge=0, le=LARGEST_TOKEN_ID)]
TokenIds = Annotated[list[TokenId], Several, BeforeValidator(_whole)]
TextsOrIds = Annotated[
    Annotated[Text, Tag(ONE)]
    | Annotated[Texts, Tag(SEVERAL)]
    | Annotated[TokenIds, Tag(IDS)]
    | Annotated[Annotated[list[TokenIds], Several], Tag(ID_LISTS)],
    Discriminator(_input_shape),
]
Side = Annotated[float, Field(ge=0, le=1)]
ServedName = Annotated[str | None, Field(description="A served model's name; by default the first.")]


class Body(BaseModel):
    """A field that is not known is refused: ignored, it would change nothing and nobody would know."""

    model_config = ConfigDict(extra="forbid", protected_namespaces=(), allow_inf_nan=False)

    @model_validator(mode="before")
    @classmethod
    def _one_unknown_field(cls, given: Any) -> Any:
        """The first alone is told: a body can have hundreds of thousands."""
        if not isinstance(given, dict) or len(given) <= len(cls.model_fields) + 1:
            return given
        unknown = next(name for name in given if name not in cls.model_fields)
        return {name: value for name, value in given.items() if name in cls.model_fields or name == unknown}


class EmbeddingsBody(Body):
    input: Annotated[
        TextsOrIds,
        Field(description="A text or several; each may be a list of cl100k_base's token ids, which tiktoken decodes."),
    ]
    model: Annotated[str, Field(description="A served model's name.")]
    encoding_format: Annotated[Literal["float", "base64"], Field(description="base64: float32, little-endian.")] = (
        "float"
    )
    dimensions: Annotated[
        Positive | None, Field(description="So many leading numbers of each vector; by default all of them.")
    ] = None
    user: Annotated[str | None, Field(description="Taken for OpenAI's clients; not used.")] = None


class Document(Body):
    text: Text


TextOrDocument = Annotated[
    Annotated[Text, Tag(PLAIN)] | Annotated[Document, Tag(OBJECT)],
    Discriminator(lambda value: OBJECT if isinstance(value, (dict, Document)) else PLAIN),
]


class RerankBody(Body):
    query: Text
    documents: Annotated[list[TextOrDocument], Several]
    model: ServedName = None
    top_n: Annotated[Positive | None, Field(description="The best so many alone.")] = None
    return_documents: Annotated[bool, Field(strict=True, description="Repeat each document in the answer.")] = False


class PairsBody(Body):
    pairs: Annotated[list[Annotated[list[Text], Field(min_length=2, max_length=2)]], Several]
    model: ServedName = None


class ListsBody(Body):
    first: OneOrSeveral
    second: OneOrSeveral
    model: ServedName = None


def _which(body: Any) -> str:
    return PAIRS if isinstance(body, PairsBody) or (isinstance(body, dict) and "pairs" in body) else LISTS


SimilarityBody = Annotated[Annotated[PairsBody, Tag(PAIRS)] | Annotated[ListsBody, Tag(LISTS)], Discriminator(_which)]


class SearchBody(Body):
    query: Annotated[OneOrSeveral, Field(description="A text or several.")]
    k: Annotated[Positive, Field(description="Sentences for each query.")] = 10
    exact: Annotated[bool, Field(strict=True, description="Compare with all sentences.")] = False
    rerank: Annotated[
        Count, Field(description="Take so many and order them by how alike they rank a corpus (RankEncoder).")
    ] = 0
    model: ServedName = None


class Usage(BaseModel):
    prompt_tokens: int
    total_tokens: int
    cut_texts: Annotated[int, Field(description="Texts longer than the model reads; their ends were left out.")]


class Embedding(BaseModel):
    object: Literal["embedding"]
    index: int
    embedding: list[float] | str


class Embeddings(BaseModel):
    object: Literal["list"]
    data: list[Embedding]
    model: str
    usage: Usage


class Result(BaseModel):
    index: int
    relevance_score: float
    document: Document | None = None


class Reranked(BaseModel):
    model: str
    results: list[Result]
    usage: Usage


class Similarities(BaseModel):
    scores: Annotated[
        list[float] | list[list[float]] | float,
        Field(description="Of pairs a list; of two texts a number; else a matrix (first, second)."),
    ]
    model: str
    usage: Usage


class Hit(BaseModel):
    """score: by what hits are ordered; line: of the file `source`; row: its number in the index.

    id: of the document that the text is (a passage of); document: its number in the index; passage: which of its
    `passages` it is, from 1.
    """

    text: str
    score: float
    cosine: float
    row: int
    line: int
    source: str
    id: str | None
    document: int
    passage: int
    passages: int


class Found(BaseModel):
    results: Annotated[list[Hit] | list[list[Hit]], Field(description="Of one query a list, of several a list each.")]
    model: str


class PlaceBody(Body):
    query: Text
    k: Annotated[Positive, Field(description="Sentences that are placed beside the query.")] = 10
    model: ServedName = None


class Point(BaseModel):
    """line: of the file `source`; group: its place in `groups`."""

    x: Side
    y: Side
    text: str
    line: int
    source: str
    group: int


class Group(BaseModel):
    label: Annotated[str, Field(description="Words that set the group apart.")]


class Map(BaseModel):
    model: str
    method: Annotated[str, Field(description="By what the vectors were brought onto the plane: t-SNE, or PCA for few.")]
    explained: Annotated[
        Annotated[list[float], Field(min_length=2, max_length=2)] | None,
        Field(description="Of PCA the shares of the variance that both directions keep."),
    ]
    sampled: Annotated[int, Field(description="Sentences shown, equal ones once.")]
    of: Annotated[int, Field(description="Sentences of the whole index.")]
    points: list[Point]
    groups: list[Group]


class PlacedHit(BaseModel):
    x: Side
    y: Side
    text: str
    score: float
    line: int
    source: str


class Placed(BaseModel):
    x: Side
    y: Side
    results: list[PlacedHit]


class IndexGeometry(BaseModel):
    """Lower is better for alignment and uniformity."""

    model: str
    alignment: Annotated[
        float | None, Field(description="Mean squared distance of positive pairs; null without such pairs.")
    ]
    uniformity: Annotated[float, Field(description="Log of the mean of exp(-2 squared distance) over all pairs.")]
    mean_cosine: Annotated[float, Field(description="Of any two sentences.")]
    pairs: Annotated[int, Field(description="Positive pairs.")]
    sentences: Annotated[int, Field(description="Distinct sentences measured.")]
    positives: Annotated[str, Field(description="How the positive pairs were made.")]


class IndexFacts(BaseModel):
    texts: int
    kind: str


class ModelCard(BaseModel):
    id: str
    object: Literal["model"]
    created: int
    owned_by: str
    dimensions: int
    max_tokens: int
    scoring: str
    index: Annotated[IndexFacts | None, Field(description="Without one, search, map and geometry do not answer.")]


class Models(BaseModel):
    object: Literal["list"]
    data: list[ModelCard]


class Health(BaseModel):
    status: Literal["ok"]
    model: str
    waiting_texts: int


class ErrorFacts(BaseModel):
    message: str
    type: str
    param: str | None
    code: str


class ErrorBody(BaseModel):
    error: ErrorFacts
