"""Triplets written by a language model: for each anchor a sentence that follows from it and one that contradicts it.

    result = construct_triplets(CorpusAnchors(reading), engine, TripletSettings.usual(), "triplets", limit=1000)

SynCSE (Zhang et al. 2023): instructions and examples are drawn at random from pools. Here a block of anchors shares a
draw, so that the engine computes what their prompts have in common once. MultiCSR (Wang et al. 2024): `guidance` pushes
a sentence away from what the opposite instruction would give, and `curation` keeps a triplet if the model itself scores
it well. A sentence that breaks a rule is asked for again, by another draw. Everything a triplet follows from is in the
folder's header.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from nearer.construct.anchors import SCRATCH_STEP, Anchor, AnchorSource
from nearer.construct.answer_log import AnswerLog
from nearer.construct.construction import Construction, Format
from nearer.construct.few_shot import FewShot, read_pool
from nearer.construct.lists import Pace
from nearer.construct.requests import Engine, Generated, Request
from nearer.construct.triplet_rules import (
    REPEATED,
    ROLES,
    SAME,
    TOO_LONG,
    TOO_SHORT,
    UNSCORED,
    Curation,
    Role,
    find_fault,
    key_of,
    read_score,
    read_sentence,
    words_of,
)
from nearer.errors import InputError, SettingError
from nearer.terminal import progress_bar

KIND = "triplets"
BLOCK = 256  # anchors that share a draw of instructions and examples
GIVE_UP_AFTER = 64  # if so many at first are all rejected, the others would fare no better
SCORE_STEPS = {"positive": 500, "negative": 501}
SCORE_TOKENS = 8
LONGEST_SHOWN = 200


@dataclass(frozen=True)
class TripletSettings:
    """positive, negative: pools of prompts; score: the prompt of curation, with the fields sentence and other.

    shots: examples in a prompt; attempts: how often a sentence is asked for; longest: words of a sentence at most.
    guidance: λ of (1 + λ) log p(· | own instruction) − λ log p(· | opposite instruction), MultiCSR's first stage.
    """

    positive: tuple[FewShot, ...]
    negative: tuple[FewShot, ...]
    score: FewShot
    shots: int = 5
    attempts: int = 2
    longest: int = 64
    guidance: float = 0.0
    curation: Curation | None = None

    @classmethod
    def usual(cls, **changed: Any) -> TripletSettings:
        """With the prompts that come with the package."""
        pools = {str(role): read_pool(f"triplet_{role}_", ["sentence"]) for role in ROLES}
        [score] = read_pool("triplet_score", ["sentence", "other"])
        usual: dict[str, Any] = {**pools, "score": score}
        return cls(**(usual | changed))

    def __post_init__(self) -> None:
        for name, lowest in (("shots", 0), ("attempts", 1), ("longest", 4)):
            if getattr(self, name) < lowest:
                raise SettingError(f"{name}: {getattr(self, name)} is below {lowest}.", argument=name)
        if self.attempts > 100:
            raise SettingError(f"attempts: {self.attempts} is above 100.", argument="attempts")
        if not 0 <= self.guidance < float("inf"):
            raise SettingError(f"guidance: {self.guidance} must be a finite number, not below 0.", argument="guidance")

    def about(self) -> dict[str, Any]:
        pools = {role: {one.name: one.text for one in getattr(self, role)} for role in ROLES}
        curation = None if self.curation is None else {**asdict(self.curation), "template": self.score.text}
        numbers = {name: getattr(self, name) for name in ("shots", "attempts", "longest", "guidance")}
        return {"templates": pools, **numbers, "curation": curation}


@dataclass(frozen=True)
class TripletsResult:
    """What came out, in all runs together; of this run alone: again (faults that were asked about again) and pace."""

    data: Path
    triplets: int
    rejected: Counter[str]
    swapped: int
    anchors: int
    built: int
    again: Counter[str]
    pace: Pace


def construct_triplets(
    source: AnchorSource,
    engine: Engine,
    settings: TripletSettings,
    out: str | Path,
    *,
    seed: int = 0,
    limit: int | None = None,
    format: Format = "jsonl",
    notes: Mapping[str, Any] | None = None,
    progress: bool = False,
) -> TripletsResult:
    """Write what is missing in the folder `out`: `data.jsonl` with `anchor`, `positive` and `hard_negative`.

    Equal sources, settings and seeds give equal files, however often it was interrupted (as far as the engine's
    rounding does not depend on what it computes together). limit: take so many anchors at most; a later run with
    another limit, or none, goes on.
    """
    about = {"kind": KIND, **source.identity(), **settings.about(), "seed": seed, "engine": engine.identity()}
    with Construction(out, about, notes=notes, format=format) as building:
        log = AnswerLog(
            building.folder, engine, needed=lambda number, step: step == SCRATCH_STEP or number not in building.done
        )
        writing = _Writing(log, settings, building, seed)
        try:
            anchors = source.collect(building.folder, writing.ask, seed, limit)
            missing = [number for number in range(len(anchors)) if number not in building.done]
            with progress_bar("triplets", len(anchors), "triplets", shown=progress) as advance:
                advance(len(anchors) - len(missing))
                for start in range(0, len(anchors), BLOCK):
                    block = [n for n in missing if start <= n < start + BLOCK]
                    if block:
                        writing.write(start // BLOCK, {n: anchors[n] for n in block})
                        advance(len(block))
        except KeyboardInterrupt:
            raise KeyboardInterrupt(
                f"stopped; {len(building.done):,} finished triplets and all answers are kept in {building.folder}; the "
                "same command goes on there"
            ) from None
        records = [record for _, record in building.records()]
        swapped = sum(bool(record.get("swapped")) for record in records)
        data = building.finish({"anchors": len(anchors), "swapped": swapped})
        log.remove()
        return TripletsResult(
            data, len(records), building.rejected, swapped, len(anchors), len(missing), writing.again, writing.pace
        )


class _Draw(NamedTuple):
    """A prompt that was drawn: its template, and which examples it shows."""

    template: FewShot
    shown: list[int]

    def prompt(self, anchor: str) -> str:
        return self.template.prompt([anchor], self.shown)


@dataclass
class _Piece:
    number: int
    anchor: Anchor
    sentences: dict[Role, str] = field(default_factory=dict)
    templates: dict[Role, str] = field(default_factory=dict)
    scores: dict[Role, float] = field(default_factory=dict)
    swapped: bool = False
    fault: str | None = None
    answer: str = ""

    def record(self) -> dict[str, Any]:
        found: dict[str, Any] = {
            "anchor": self.anchor.text,
            "positive": self.sentences["positive"],
            "hard_negative": self.sentences["negative"],
            "templates": [self.templates[role] for role in ROLES],
            **self.anchor.about,
        }
        if self.scores:
            found |= {"scores": [self.scores[role] for role in ROLES], "swapped": self.swapped}
        return found

    def detail(self) -> dict[str, Any]:
        sentences = {str(role): sentence for role, sentence in self.sentences.items()}
        return {"anchor": self.anchor.text, **sentences, "answer": self.answer, "scores": self.scores}


def _swap(both: dict[Role, Any]) -> None:
    both["positive"], both["negative"] = both["negative"], both["positive"]


class _Writing:
    """Blocks of anchors: positives, negatives, scores, and then the records in the order of their numbers.

    That order decides which of two equal sentences is kept, so it must not depend on who is finished first.
    """

    def __init__(self, log: AnswerLog, settings: TripletSettings, building: Construction, seed: int) -> None:
        self.log, self.settings, self.building, self.seed = log, settings, building, seed
        self.pace = Pace()
        self.again: Counter[str] = Counter()
        self.seen = {key_of(record[name]) for _, record in building.records() for name in ("positive", "hard_negative")}
        self.last_answer = ""

    def ask(self, requests: Any) -> dict[int, Generated]:
        return self.log.ask(requests, self._heard)

    def write(self, block: int, anchors: Mapping[int, Anchor]) -> None:
        pieces = [_Piece(number, anchor, fault=self._anchor_fault(anchor.text)) for number, anchor in anchors.items()]
        for role in ROLES:
            self._write_sentences(block, role, pieces)
        if self.settings.curation is not None:
            self._curate(self.settings.curation, [piece for piece in pieces if piece.fault is None])
        self._write_down(pieces)

    def _heard(self, answer: Generated) -> None:
        self.pace.sentences += 1
        self.pace.tokens += answer.tokens

    def _anchor_fault(self, text: str) -> str | None:
        words = words_of(text)
        if not words or len(text.splitlines()) > 1:
            return f"anchor: {TOO_SHORT}"
        return f"anchor: {TOO_LONG}" if len(words) > self.settings.longest else None

    def _write_sentences(self, block: int, role: Role, pieces: Sequence[_Piece]) -> None:
        wanted = [piece for piece in pieces if piece.fault is None]
        for attempt in range(self.settings.attempts):
            if not wanted:
                return
            if attempt:
                self.again.update(piece.fault for piece in wanted if piece.fault)
            draw, opposite = self._draws(block, role, attempt)
            step = attempt + (0 if role == "positive" else 100)
            # the longest first: they take longest, and the last to end run alone
            order = sorted(wanted, key=lambda piece: (-len(piece.anchor.text), piece.number))
            answers = self.ask([self._request(piece, step, draw, opposite) for piece in order])
            for piece in wanted:
                self._take(piece, role, draw, answers[piece.number])
            wanted = [piece for piece in wanted if piece.fault is not None]

    def _draws(self, block: int, role: Role, attempt: int) -> tuple[_Draw, _Draw]:
        found = []
        for number, kind in enumerate(ROLES):
            random = np.random.default_rng([self.seed, block, attempt, number])
            pool: tuple[FewShot, ...] = getattr(self.settings, kind)
            template = pool[int(random.integers(len(pool)))]
            found.append(_Draw(template, template.draw(random, self.settings.shots)))
        return (found[0], found[1]) if role == "positive" else (found[1], found[0])

    def _request(self, piece: _Piece, step: int, draw: _Draw, opposite: _Draw) -> Request:
        text, guidance = piece.anchor.text, self.settings.guidance
        away_from = opposite.prompt(text) if guidance else None
        return Request(piece.number, step, draw.prompt(text), away_from, guidance)

    def _take(self, piece: _Piece, role: Role, draw: _Draw, answer: Generated) -> None:
        sentence, anchor = read_sentence(answer.text), piece.anchor.text
        shown = [draw.template.answers[index] for index in draw.shown]
        fault = find_fault(answer, sentence, anchor, shown, self.settings.longest)
        if fault is None and role == "negative" and key_of(sentence) == key_of(piece.sentences["positive"]):
            fault = SAME
        piece.fault = None if fault is None else f"{role}: {fault}"
        piece.answer = answer.text
        piece.sentences[role], piece.templates[role] = sentence, draw.template.name

    def _curate(self, curation: Curation, pieces: Sequence[_Piece]) -> None:
        for role in ROLES:
            open_pieces = [piece for piece in pieces if piece.fault is None]
            answers = self.ask([self._score_request(piece, role) for piece in open_pieces])
            for piece in open_pieces:
                score = read_score(answers[piece.number].text)
                if score is None:
                    piece.fault, piece.answer = UNSCORED, answers[piece.number].text
                else:
                    piece.scores[role] = score
        for piece in pieces:
            if piece.fault is not None:
                continue
            if curation.swaps(piece.scores["positive"], piece.scores["negative"]):
                piece.swapped = True
                for both in (piece.sentences, piece.scores, piece.templates):
                    _swap(both)
            piece.fault = curation.fault(piece.scores["positive"], piece.scores["negative"])

    def _score_request(self, piece: _Piece, role: Role) -> Request:
        score = self.settings.score
        prompt = score.prompt([piece.anchor.text, piece.sentences[role]], range(len(score.examples)))
        return Request(piece.number, SCORE_STEPS[role], prompt, max_new_tokens=SCORE_TOKENS, greedy=True)

    def _write_down(self, pieces: Sequence[_Piece]) -> None:
        kept: list[tuple[int, dict[str, Any]]] = []
        rejected: list[tuple[int, str, Any]] = []
        for piece in pieces:
            keys = {key_of(sentence) for sentence in piece.sentences.values()}
            if piece.fault is None and keys & self.seen:
                piece.fault = REPEATED
            if piece.fault is None:
                self.seen |= keys
                kept.append((piece.number, piece.record()))
                continue
            rejected.append((piece.number, piece.fault, piece.detail()))
            self.last_answer = piece.answer or self.last_answer
        if rejected:
            self.building.reject_many(rejected)
        if kept:
            self.building.add_many(kept)
        done = len(self.building.done)
        if done >= GIVE_UP_AFTER and done == self.building.rejected.total():
            raise self._all_rejected()

    def _all_rejected(self) -> InputError:
        reasons = ", ".join(f"{reason} {count:,}" for reason, count in self.building.rejected.most_common(5))
        return InputError(
            f"{self.building.folder}: all of the first {len(self.building.done):,} triplets were rejected ({reasons}); "
            f"the model's last answer was {self.last_answer[:LONGEST_SHOWN]!r}. Another model or other templates may "
            "help; all answers are in the folder's journal."
        )
