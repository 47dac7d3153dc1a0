"""Bodies of requests and answers that are about a map, and of the geometry."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, Field

from nearer.serve.schemas import Body, Positive, ServedName, Text

Side = Annotated[float, Field(ge=0, le=1)]


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
