"""Ranking lists sentence by sentence, many at once over one engine: who is asked what, and when a list has ended.

The directional method (§3.1): x(1) follows from x(0) alone; x(i) is asked for with the instruction around x(i−1), away
from the same instruction around x(i−2) (Eq. 3, 4). Step by step (Eq. 2) is the same without a direction; single-step
asks for the whole list at once.

The rules (Appendix A) make lists complete and without redundancy: all sentences there, none empty, none with a line
break, none three times. The released code looks at the end of a list alone: it is kept if its last and its last but one
sentence each occur fewer than three times in it. `parse_numbered` finds the sentences in one answer that holds a whole
numbered list (single-step generation).
"""

from __future__ import annotations

import math
import re
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any, Literal, Protocol, get_args

from nearer.construct.requests import METHODS, Engine, Generated, Method, Request, Template
from nearer.construct.start_sentences import Start
from nearer.errors import SettingError


@dataclass(frozen=True)
class ListSettings:
    """steps: sentences to generate behind the first. minimum_steps: a list that breaks a rule later than that is kept
    up to there. first_line: of an answer with several lines the first is the sentence, instead of breaking a rule."""

    method: Method
    template: Template
    steps: int
    minimum_steps: int
    guidance: float
    rules: Rules = "paper"
    first_line: bool = False

    def __post_init__(self) -> None:
        if self.method not in METHODS:
            raise SettingError(f"method: {self.method!r} is not one of {', '.join(METHODS)}.")
        if self.rules not in RULES:
            raise SettingError(f"rules: {self.rules!r} is not one of {', '.join(RULES)}.")
        if self.steps < 1:
            raise SettingError(f"steps: {self.steps} is below 1.")
        if not 1 <= self.minimum_steps <= self.steps:
            raise SettingError(f"minimum_steps: {self.minimum_steps} is not within 1 and steps ({self.steps}).")
        if not (math.isfinite(self.guidance) and self.guidance >= 0):
            raise SettingError(f"guidance: {self.guidance} must be a finite number, not below 0.")
        if self.first_line and self.method == "single-step":
            raise SettingError("first_line: a whole list in one answer has many lines; leave it out.")
        if self.guidance and self.method != "directional":
            raise SettingError(f"guidance: the {self.method} method has none; leave it out, or 0.")


@dataclass(frozen=True)
class GrownList:
    """A list that has ended. rejected: the rule it broke, None if it can be used; answer: the model's last words."""

    number: int
    sentences: list[str]
    rejected: str | None
    answer: str
    tokens: int


def grow_lists(
    engine: Engine,
    starts: Iterable[Start],
    settings: ListSettings,
    *,
    heard: Callable[[Generated], None] | None = None,
) -> Iterator[GrownList]:
    """Each list as it ends, in no order. heard: told of each answer."""
    growing = _WholeLists(settings) if settings.method == "single-step" else _SentenceBySentence(settings)
    waiting: deque[Request] = deque()
    for start in starts:
        fault = fault_of(start.sentence, ())
        if fault is None:
            waiting.append(growing.begin(start))
        else:
            yield GrownList(start.number, [start.sentence], fault, "", 0)
    tokens: Counter[int] = Counter()
    answers: Any = engine.answer(waiting)
    with closing(answers):
        for answer in answers:
            tokens[answer.request.number] += answer.tokens
            if heard is not None:
                heard(answer)
            then = growing.take(answer)
            if isinstance(then, Request):
                # to the front: a list that was begun is ended before another begins, so that little is open at a time
                waiting.appendleft(then)
            else:
                number, sentences, fault = then
                count = tokens.pop(number)
                yield GrownList(number, sentences, _verdict(sentences, fault, settings), answer.text, count)


Ended = tuple[int, list[str], str | None]  # number, sentences, the first rule that was broken


class _Growing(Protocol):
    def begin(self, start: Start) -> Request: ...

    def take(self, answer: Generated) -> Request | Ended: ...


class _SentenceBySentence(_Growing):
    def __init__(self, settings: ListSettings) -> None:
        self.settings = settings
        self.lists: dict[int, list[str]] = {}

    def begin(self, start: Start) -> Request:
        self.lists[start.number] = [start.sentence]
        return self._next(start.number)

    def take(self, answer: Generated) -> Request | Ended:
        number = answer.request.number
        sentences = self.lists[number]
        sentence = cleaned(answer.text)
        fault = _fault_of_ending(answer) or fault_of(sentence, sentences, self.settings.rules)
        if fault is None and self.settings.first_line and sentence.endswith(":"):
            fault = ANNOUNCED
        if fault is None:
            sentences.append(sentence)
            if len(sentences) <= self.settings.steps:
                return self._next(number)
        del self.lists[number]
        return _ended(number, sentences, fault, self.settings)

    def _next(self, number: int) -> Request:
        sentences, guidance = self.lists[number], self.settings.guidance
        prompt = self.settings.template.prompt
        away_from = None
        if len(sentences) == 1 or not guidance:  # λ = 0 for the first one
            guidance = 0.0
        else:
            away_from = prompt(sentences[-2])
        one_line = self.settings.first_line
        return Request(number, len(sentences), prompt(sentences[-1]), away_from, guidance, one_line=one_line)


class _WholeLists(_Growing):
    def __init__(self, settings: ListSettings) -> None:
        self.settings = settings
        self.starts: dict[int, str] = {}

    def begin(self, start: Start) -> Request:
        self.starts[start.number] = start.sentence
        return Request(start.number, 1, self.settings.template.prompt(start.sentence), one_line=False)

    def take(self, answer: Generated) -> Ended:
        number, steps = answer.request.number, self.settings.steps
        sentences = [self.starts.pop(number)]
        ending = _fault_of_ending(answer)
        found = parse_numbered(answer.text)
        if ending is not None and len(found) <= steps:
            found = found[:-1]  # the last one was cut off
        for sentence in map(cleaned, found[:steps]):
            if fault := fault_of(sentence, sentences, self.settings.rules):
                return _ended(number, sentences, fault, self.settings)
            sentences.append(sentence)
        fault = None if len(sentences) > steps else ending or (INCOMPLETE if found else EMPTY)
        return _ended(number, sentences, fault, self.settings)


def _fault_of_ending(answer: Generated) -> str | None:
    return {"model": None, "limit": CUT_OFF, "no room": NO_ROOM}[answer.ended]


def _ended(number: int, sentences: list[str], fault: str | None, settings: ListSettings) -> Ended:
    if settings.rules == "released":
        kept = without_repeated_end(sentences)
        if len(kept) < len(sentences):
            return number, kept, fault or REPEATED_END
    return number, sentences, fault


def _verdict(sentences: list[str], fault: str | None, settings: ListSettings) -> str | None:
    """A broken rule rejects a list, unless what came before is long enough."""
    return fault if len(sentences) - 1 < settings.minimum_steps else None


Rules = Literal["paper", "released"]
RULES: tuple[Rules, ...] = get_args(Rules)

EMPTY = "empty sentence"
LINE_BREAK = "line break in a sentence"
REPEATED = "sentence repeated three times"
REPEATED_END = "one of the last two sentences three times"
CUT_OFF = "cut off at the limit of new tokens"
NO_ROOM = "prompt longer than the model's window"
ANNOUNCED = "announcement instead of a sentence"  # "Here is the sentence:", and then another line
INCOMPLETE = "too few sentences"

MOST_OFTEN = 2
_LABEL = re.compile(r"^(?:\**\s*(?:result|rewrite|rewritten(?: sentence)?)\s*:\s*\**\s*)+", re.IGNORECASE)
_QUOTES = {'"': '"', "'": "'", "“": "”", "‘": "’", "«": "»", "„": "“", "`": "`"}


def cleaned(text: str) -> str:
    """Without what models put around an answer: space, the label of the prompt's end, quotation marks."""
    before = None
    while before != text:
        before = text
        text = _unquoted(_LABEL.sub("", text.strip()))
    return text


def fault_of(sentence: str, before: Sequence[str], rules: Rules = "paper") -> str | None:
    """The rule that a (cleaned) sentence breaks behind those before it. By the released rules a sentence may repeat:
    they look at a list when it has ended (`without_repeated_end`)."""
    if not sentence:
        return EMPTY
    if len(sentence.splitlines()) > 1:
        return LINE_BREAK
    if rules == "paper" and sum(_alike(sentence, other) for other in before) >= MOST_OFTEN:
        return REPEATED
    return None


def without_repeated_end(sentences: Sequence[str]) -> list[str]:
    """Cut so that the last and the last but one sentence each occur fewer than three times (the released rule)."""
    kept = list(sentences)
    while any(sum(_alike(end, other) for other in kept) > MOST_OFTEN for end in kept[-2:]):
        kept.pop()
    return kept


def _alike(first: str, second: str) -> bool:
    return first == second or first.split() == second.split()


def _unquoted(text: str) -> str:
    """Quotation marks around the whole go; those of a quotation at its beginning or end stay."""
    if len(text) >= 2 and _QUOTES.get(text[0]) == text[-1]:
        inside = text[1:-1]
        if text[0] not in inside and text[-1] not in inside:
            return inside.strip()
    return text


# "1. …", "1) …", "(1) …", "1: …", "**1.** …", "- 1. …", with or without space in front
_NUMBERED = re.compile(r"^\s*(?:[-*•]\s+)?\**\(?(\d{1,4})\s*[.):](?!\d)\s*\**\s*(.*)$")


def parse_numbered(text: str) -> list[str]:
    """The numbered sentences from 1 on, as long as numbers go up by one.

    A line without a number belongs to the sentence above it, with its line break; behind an empty line it is a remark
    of the model's and left out, and so is what comes before the first number.
    """
    found: list[str] = []
    open_sentence = False
    for line in text.splitlines():
        if not line.strip():
            open_sentence = False
            continue
        numbered = _NUMBERED.match(line)
        if numbered is None:
            if open_sentence:
                found[-1] += "\n" + line.strip()
            continue
        if int(numbered[1]) != len(found) + 1:
            if found:
                break  # it begins anew, or leaves some out
            continue
        found.append(numbered[2].strip())
        open_sentence = True
    return found
