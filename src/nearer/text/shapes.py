"""How columns become records: which names each field goes by, and how a record is built from its values."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from nearer.errors import InputError, SettingError
from nearer.text.faults import Fault
from nearer.text.records import DebiasedSample, LabelledPair, Pair, RankingList, ScoredList, Triplet


class Unusable(Exception):
    """A record that has to be dropped, with the fault it is dropped for."""

    def __init__(self, fault: Fault, detail: str = "") -> None:
        super().__init__(detail)
        self.fault = fault
        self.detail = detail


@dataclass(frozen=True)
class Field:
    """One value of a record: `names` are the column names it goes by in the data sets of the field."""

    names: tuple[str, ...]
    required: bool = True


@dataclass(frozen=True)
class Shape:
    """A kind of record.

    plain_lines: a line of plain text is one. unnamed_fields: how many fields a row without names can fill, if not all.
    """

    name: str
    plural: str
    fields: tuple[Field, ...]
    build: Callable[[Sequence[Any], Clean], Any]
    plain_lines: bool = False
    unnamed_fields: int | None = None

    @property
    def value_counts(self) -> range:
        """How many values a row without names may have."""
        return range(self.required, (self.unnamed_fields or len(self.fields)) + 1)

    @property
    def required(self) -> int:
        return sum(field.required for field in self.fields)


@dataclass(frozen=True)
class Clean:
    """Turns one raw value into clean text, or says why it cannot be used."""

    max_characters: int

    def __call__(self, value: object) -> str:
        if value is None:
            raise Unusable(Fault.EMPTY)
        if not isinstance(value, str):
            raise Unusable(Fault.WRONG_FIELDS, f"text expected, {type(value).__name__} found")
        text = value.replace("\x00", "").strip()
        if not text:
            raise Unusable(Fault.EMPTY)
        if len(text) > self.max_characters:
            raise Unusable(Fault.OVER_LONG, f"{len(text):,} characters")
        try:
            text.encode()
        except UnicodeEncodeError:  # JSON escapes can hold one, UTF-8 cannot
            raise Unusable(Fault.INVALID_TEXT, "half a surrogate pair") from None
        return text


def _sentence(values: Sequence[Any], clean: Clean) -> str:
    return clean(values[0])


def _pair(values: Sequence[Any], clean: Clean) -> Pair:
    first, second = clean(values[0]), clean(values[1])
    return Pair(first, second, None if values[2] is None else _score(values[2]))


def _labelled_pair(values: Sequence[Any], clean: Clean) -> LabelledPair:
    label = values[2]
    if isinstance(label, int | Decimal) and not isinstance(label, bool):
        label = str(label)
    if isinstance(label, str) and label.strip() in UNLABELLED:
        raise Unusable(Fault.NO_LABEL, repr(label))
    return LabelledPair(clean(values[0]), clean(values[1]), clean(label))


def _score(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, (str, int, float, Decimal)):
        raise Unusable(Fault.BAD_SCORE, type(value).__name__)
    try:
        score = float(value)
    except (ValueError, OverflowError):
        raise Unusable(Fault.BAD_SCORE, repr(value)[:20]) from None
    if not math.isfinite(score):
        raise Unusable(Fault.BAD_SCORE, repr(value)[:20])
    return score


def _triplet(values: Sequence[Any], clean: Clean) -> Triplet:
    return Triplet(clean(values[0]), clean(values[1]), clean(values[2]))


def _debiased(values: Sequence[Any], clean: Clean) -> DebiasedSample:
    anchor = clean(values[0])
    positives, negatives = (tuple(clean(text) for text in _listed(value)) for value in values[1:])
    if not positives and not negatives:
        raise Unusable(Fault.WRONG_FIELDS, "neither a positive nor a negative")
    return DebiasedSample(anchor, positives, negatives)


def _ranking_list(values: Sequence[Any], clean: Clean) -> RankingList:
    sentences = _listed(values[0])
    if len(sentences) < 2:
        raise Unusable(Fault.WRONG_COLUMNS, f"{len(sentences)} found, a ranking list needs at least 2")
    return RankingList(tuple(clean(sentence) for sentence in sentences))


def _scored_list(values: Sequence[Any], clean: Clean) -> ScoredList:
    return ScoredList(clean(values[0]), *scored_values(values[1:], clean))


def scored_values(values: Sequence[Any], read: Callable[[object], str]) -> tuple[tuple[str, ...], tuple[float, ...]]:
    """Passages (or their ids) and their scores, as many of the one as of the other. read: makes one of a raw value."""
    listed, given = _listed(values[0]), _listed(values[1])
    if len(listed) != len(given):
        raise Unusable(Fault.WRONG_FIELDS, f"{len(listed)} passages, {len(given)} scores")
    if len(listed) < 2:
        raise Unusable(Fault.WRONG_COLUMNS, f"{len(listed)} passages found, a scored list needs at least 2")
    return tuple(read(passage) for passage in listed), tuple(_score(score) for score in given)


def _listed(value: object) -> Sequence[object]:
    if not isinstance(value, (list, tuple)):
        raise Unusable(Fault.WRONG_FIELDS, f"a list expected, {type(value).__name__} found")
    return value


# How SNLI and its copies spell that people did not agree on a class
UNLABELLED = ("-", "-1")
SENTENCES = Shape(
    "sentence", "sentences", (Field(("sentence", "text", "sent0", "query")),), _sentence, plain_lines=True
)
PAIRS = Shape(
    "pair",
    "pairs",
    (
        Field(("sentence1", "anchor", "sent0", "sentence_a", "text1", "query", "question", "premise")),
        Field(("sentence2", "positive", "sent1", "sentence_b", "text2", "answer", "hypothesis")),
        Field(("score", "similarity", "relatedness_score", "similarity_score", "label"), required=False),
    ),
    _pair,
)
LABELLED_PAIRS = Shape(
    "labelled pair",
    "labelled pairs",
    (*PAIRS.fields[:2], Field(("label", "gold_label", "class"))),
    _labelled_pair,
)
TRIPLETS = Shape(
    "triplet",
    "triplets",
    (
        Field(("anchor", "sent0", "query", "premise")),
        Field(("positive", "sent1", "entailment")),
        Field(("hard_negative", "hard_neg", "negative", "contradiction")),
    ),
    _triplet,
)
DEBIASED = Shape(
    "debiased sample",
    "debiased samples",
    (Field(("anchor", "sentence", "query")), Field(("positives",)), Field(("negatives", "hard_negatives"))),
    _debiased,
)
RANKING_LISTS = Shape("ranking list", "ranking lists", (Field(("sentences", "list")),), _ranking_list)
SCORED_LISTS = Shape(
    "scored list",
    "scored lists",
    (
        Field(("query", "anchor", "question")),
        Field(("passages", "documents", "candidates")),
        Field(("scores", "labels")),
    ),
    _scored_list,
)
SHAPES = {
    "sentences": SENTENCES,
    "pairs": PAIRS,
    "labelled": LABELLED_PAIRS,
    "triplets": TRIPLETS,
    "debiased": DEBIASED,
    "lists": RANKING_LISTS,
    "scored": SCORED_LISTS,
}


def match_columns(shape: Shape, names: Sequence[str]) -> list[int | None] | None:
    """Which column holds each field, told by the columns' names; None when a required one is not there."""
    lowered = [name.strip().lower() for name in names]
    indices: list[int | None] = []
    for field in shape.fields:
        index = next((lowered.index(name) for name in field.names if name in lowered), None)
        if index is None and field.required:
            return None
        indices.append(index)
    return indices


def named_columns(shape: Shape, columns: Sequence[str], names: Sequence[str], source: str) -> list[int | None]:
    """Which column holds each field, told by the user; an unknown name is an error that lists what is there."""
    check_column_count(shape, columns)
    unknown = [column for column in columns if column not in names]
    if unknown:
        raise InputError(f"{source}: has no column {shown_names(unknown)}; its columns are {shown_names(names)}.")
    indices: list[int | None] = [list(names).index(column) for column in columns]
    return indices + [None] * (len(shape.fields) - len(indices))


def shown_names(names: Sequence[str]) -> str:
    shown = [repr(name if len(name) <= 30 else name[:30] + "…") for name in names[:12]]
    return ", ".join(shown + ["…"] * (len(names) > 12)) or "none"


def check_column_count(shape: Shape, columns: Sequence[object]) -> None:
    if not shape.required <= len(columns) <= len(shape.fields):
        wanted = " or ".join(str(n) for n in range(shape.required, len(shape.fields) + 1))
        raise SettingError(f"columns: {len(columns)} named, a {shape.name} has {wanted}.")


def unclear_columns(shape: Shape, names: Sequence[str], source: str) -> InputError:
    wanted = ", ".join("/".join(field.names[:3]) for field in shape.fields if field.required)
    return InputError(
        f"{source}: cannot tell which columns make a {shape.name}; found {shown_names(names)}. "
        f"Expected {wanted}, or name them in order by columns.",
        argument="columns",
    )


def resolve_columns(shape: Shape, columns: Sequence[str] | None, names: Sequence[str], source: str) -> list[int | None]:
    """Which column holds each field, for formats that always name their columns."""
    if columns is not None:
        return named_columns(shape, columns, names, source)
    indices = match_columns(shape, names)
    if indices is None:
        raise unclear_columns(shape, names, source)
    return indices
