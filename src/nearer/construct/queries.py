"""Queries that a language model writes for passages, as people might ask for them: in several styles, drawn by a seed.

    result = construct_queries(passages, engine, QuerySettings(), "queries", limit=5000)

GPL (Wang et al. 2022) has one style; here it is drawn for each query, since nobody knows how a collection's users will
ask. Passages are taken in an order drawn by the seed, so that any beginning of the data is a fair sample. Everything a
query follows from is in the folder's header.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from nearer.construct.construction import JOURNAL, Construction, Format
from nearer.construct.lists import Pace
from nearer.construct.query_rules import CUT_OFF, NO_ROOM, REPEATED, STYLES, Style, find_fault, read_query
from nearer.construct.requests import FOLDER, TURN, Engine, Generated, Request
from nearer.errors import InputError, SettingError, did_you_mean
from nearer.storage.sealed import unsealed_line
from nearer.terminal import progress_bar
from nearer.text.batches import chunks

KIND = "queries"
PASSAGE = "{passage}"
WINDOW = 8  # times the engine's batch: what is asked for before answers are written down
LONGEST_PASSAGE = 400  # words of a passage that the model sees
GIVE_UP_AFTER = 64  # if so many answers at first are all rejected, the others would fare no better


class QueryPassage(NamedTuple):
    """What queries are written for."""

    id: str
    text: str


@dataclass(frozen=True)
class QuerySettings:
    """styles: those to draw from; per_passage: queries for each passage, of different styles as far as they go.

    templates: by style, the text of an instruction of one's own, with `{passage}` in it.
    """

    styles: tuple[Style, ...] = STYLES
    per_passage: int = 1
    templates: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.styles or len(set(self.styles)) != len(self.styles):
            raise SettingError("styles: name each once, and at least one.", argument="styles")
        for style in (*self.styles, *self.templates):
            if style not in STYLES:
                raise SettingError(
                    f"styles: {style!r} is not one of {', '.join(STYLES)}.{did_you_mean(style, STYLES)}",
                    argument="styles",
                )
        if self.per_passage < 1:
            raise SettingError(f"per_passage: {self.per_passage} is below 1.", argument="per_passage")

    def template(self, style: Style) -> str:
        return self.templates.get(style) or read_query_template(FOLDER / f"query_{style}.txt")


def read_query_template(path: str | Path) -> str:
    """An instruction: a text with one `{passage}` in it, at its end.

    Lines `---` divide it into turns: what the user says, what the model answers, and so on. Small models take examples
    for what they are only if they stand there as turns; in one text with the instruction they are said again.
    """
    try:
        text = Path(path).read_text(encoding="utf-8").strip()
    except OSError as error:
        raise InputError(f"{path}: the template cannot be read ({error.strerror or error}).") from None
    except UnicodeDecodeError:
        raise InputError(f"{path}: the template is not UTF-8 text.") from None
    turns = _turns(text)
    if text.count(PASSAGE) != 1 or PASSAGE not in turns[-1]:
        raise InputError(f"{path}: must have {PASSAGE} once, in its last turn: the passage goes there.")
    if len(turns) % 2 == 0:
        raise InputError(f"{path}: its last turn is the model's; lines of --- divide the user's turns and the model's.")
    return text


def _turns(template: str) -> list[str]:
    return [turn.strip() for turn in re.split(r"^---[ \t]*$", template, flags=re.MULTILINE)]


class _Wanted(NamedTuple):
    """A query to be written. number: in the order of the data."""

    number: int
    passage: QueryPassage
    style: Style


@dataclass(frozen=True)
class QueriesResult:
    """What came out, in all runs together; pace: of this run. wanted: queries that all passages would give."""

    data: Path
    queries: int
    kinds: Counter[str]
    rejected: Counter[str]
    wanted: int
    built: int
    pace: Pace


def construct_queries(
    passages: Sequence[QueryPassage],
    engine: Engine,
    settings: QuerySettings,
    out: str | Path,
    *,
    seed: int = 0,
    limit: int | None = None,
    batch: int = 16,
    format: Format = "jsonl",
    notes: Mapping[str, Any] | None = None,
    progress: bool = False,
) -> QueriesResult:
    """Write what is missing in the folder `out`: `data.jsonl` with `query`, `kind` (its style) and `passage` (an id).

    Equal passages, settings and seeds give equal files, however often it was interrupted (as far as the engine's
    rounding does not depend on what it computes together). limit: ask for so many queries at most; a later run with
    another limit, or none, goes on. batch: as of the engine.
    """
    if not passages:
        raise InputError("passages: there are none to write queries for.", argument="documents")
    templates = {style: settings.template(style) for style in settings.styles}
    about = {
        "kind": KIND,
        "passages": digest_passages(passages),
        "styles": list(settings.styles),
        "per_passage": settings.per_passage,
        "templates": templates,
        "seed": seed,
        "engine": engine.identity(),
    }
    order = list(_draw(passages, settings, seed))
    wanted = order[:limit]
    with Construction(out, about, notes=notes, format=format) as building:
        missing = [one for one in wanted if one.number not in building.done]
        writing = _Writing(engine, templates, building)
        with progress_bar("queries", len(wanted), "queries", shown=progress) as advance:
            advance(len(wanted) - len(missing))
            try:
                for window in chunks(missing, WINDOW * batch):
                    writing.write(window, advance)
            except KeyboardInterrupt:
                raise KeyboardInterrupt(
                    f"stopped; {len(building.done):,} of {len(wanted):,} are kept in {building.folder}; the same "
                    "command goes on there"
                ) from None
        kinds = Counter(record["kind"] for _, record in building.records())
        data = building.finish({"kinds": dict(kinds), "wanted": len(order)})
        return QueriesResult(data, kinds.total(), kinds, building.rejected, len(order), len(missing), writing.pace)


def digest_passages(passages: Iterable[QueryPassage]) -> str:
    digest = hashlib.blake2b(digest_size=16)
    for passage in passages:
        digest.update(json.dumps(passage).encode())
    return digest.hexdigest()


def _draw(passages: Sequence[QueryPassage], settings: QuerySettings, seed: int) -> Iterator[_Wanted]:
    """Each passage once, in the order of the seed, with its style; then each again with another style."""
    draw = np.random.default_rng([seed, len(passages)])
    order = draw.permutation(len(passages))
    shifts = draw.integers(len(settings.styles), size=len(passages))
    number = 0
    for turn in range(settings.per_passage):
        for index in order:
            style = settings.styles[(int(shifts[index]) + turn) % len(settings.styles)]
            yield _Wanted(number, passages[int(index)], style)
            number += 1


class _Writing:
    """Answers to windows of queries, written down in the order of their numbers.

    That order decides which of two equal queries is kept, so it must not depend on who is finished first.
    """

    def __init__(self, engine: Engine, templates: Mapping[Style, str], building: Construction) -> None:
        self.engine, self.templates, self.building = engine, templates, building
        self.pace = Pace()
        self.seen = {_key(record["query"]) for _, record in building.records()}
        self.examples = {style: _examples(text) for style, text in templates.items()}
        self.last_answer = ""

    def write(self, window: Sequence[_Wanted], advance: Any) -> None:
        answers: dict[int, Generated] = {}
        for style in self.templates:  # one at a time: its prompts have a long common beginning, which is computed once
            asked = [one for one in window if one.style == style]
            asked.sort(key=lambda one: (len(one.passage.text), one.number))  # of like length together
            requests = deque(Request(one.number, 0, self._prompt(one)) for one in asked)
            for answer in self.engine.answer(requests):
                answers[answer.request.number] = answer
                self.pace.sentences += 1
                self.pace.tokens += answer.tokens
                advance()
        self._write_down(window, answers)

    def _prompt(self, one: _Wanted) -> str:
        words = one.passage.text.replace(TURN, " ").split(" ")
        before, after = TURN.join(_turns(self.templates[one.style])).split(PASSAGE)
        return before + " ".join(words[:LONGEST_PASSAGE]) + after

    def _write_down(self, window: Sequence[_Wanted], answers: Mapping[int, Generated]) -> None:
        kept: list[tuple[int, dict[str, str]]] = []
        rejected: list[tuple[int, str, Any]] = []
        for one in sorted(window):
            answer = answers[one.number]
            query = read_query(answer.text, one.style)
            fault = self._fault(one, answer, query)
            if fault is None:
                self.seen.add(_key(query))
                kept.append((one.number, {"query": query, "kind": one.style, "passage": one.passage.id}))
            else:
                detail = {"kind": one.style, "passage": one.passage.id, "answer": answer.text}
                rejected.append((one.number, fault, detail))
                self.last_answer = answer.text
        if rejected:
            self.building.reject_many(rejected)
        if kept:
            self.building.add_many(kept)
        done = len(self.building.done)
        if done >= GIVE_UP_AFTER and done == self.building.rejected.total():
            raise self._all_rejected()

    def _fault(self, one: _Wanted, answer: Generated, query: str) -> str | None:
        if answer.ended == "no room":
            return NO_ROOM
        fault = find_fault(query, one.passage.text, one.style, self.examples[one.style])
        if fault is None and answer.ended == "limit":
            return CUT_OFF
        return REPEATED if fault is None and _key(query) in self.seen else fault

    def _all_rejected(self) -> InputError:
        reasons = ", ".join(f"{reason} {count:,}" for reason, count in self.building.rejected.most_common())
        return InputError(
            f"{self.building.folder}: all of the first {len(self.building.done):,} answers were rejected ({reasons}); "
            f"the model's last answer was {self.last_answer[:200]!r}. Another model or template (--template) may help; "
            "all answers are in the folder's journal."
        )


def _key(query: str) -> str:
    return " ".join(query.lower().strip("?.! ").split())


def _examples(template: str) -> tuple[str, ...]:
    """The model's turns: what a weak model says again instead of its own."""
    return tuple(_turns(template)[1::2])


def read_answers(folder: str | Path) -> tuple[list[dict[str, str]], list[tuple[str, dict[str, str]]]]:
    """What a folder holds so far: the records of queries, and reasons with what was rejected."""
    journal = Path(folder) / JOURNAL
    try:
        lines = [unsealed_line(line) for line in journal.read_bytes().splitlines(keepends=True)]
    except OSError as error:
        raise InputError(f"{journal}: cannot be read ({error.strerror or error}).") from None
    kept = [line["record"] for line in lines if "record" in line]
    return kept, [(line["rejected"], line["detail"]) for line in lines if "rejected" in line]
