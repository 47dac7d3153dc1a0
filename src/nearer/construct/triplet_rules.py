"""What a generated sentence must be to stand in a triplet, and the names of what it may break; what a score says."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from nearer.construct.list_growth import cleaned
from nearer.construct.query_rules import speaks_another_language
from nearer.construct.requests import Generated
from nearer.errors import SettingError

Role = Literal["positive", "negative"]
ROLES: tuple[Role, Role] = ("positive", "negative")

EMPTY = "empty"
CUT_OFF = "cut off at the limit of new tokens"
NO_ROOM = "prompt longer than the model's window"
TOO_LONG = "too long"
TOO_SHORT = "too short"
COPIED = "the sentence itself"
SAME = "positive and negative are the same"
FROM_PROMPT = "copied from an example of the prompt"
REFUSED = "refused"
REMARK = "a remark instead of a sentence"
OTHER_LANGUAGE = "in another language"
LOOPING = "says the same words again and again"
REPEATED = "written for another sentence already"

LENGTHENING, MORE_WORDS = 2, 10  # an answer may have so many times the words of its sentence, and so many more
FEWEST_DIFFERENT, LOOPS_FROM = 0.4, 12  # share of different words, in answers of at least so many
_WORD = re.compile(r"\w+")
_LABEL = re.compile(
    r"^\W*(?:(?:the )?(?:new |revised |changed |different |rewritten |negated )?(?:sentence|paraphrase|rewritten"
    r"|rewrite|revised|changed|different|answer|output|in short|also true|true|false|contradiction|hypothesis|result)"
    r"\s*[:：]\s*)+",
    re.I,
)
_REFUSAL = re.compile(
    r"\b(?:i(?: am|'m)? (?:sorry|unable|not able)|i (?:can(?:not|'t|’t)|could not|won't) "
    r"(?:\w+ )?(?:help|assist|provide|generate|paraphrase|rewrite|answer|write|create|fulfil|comply|do that)"
    r"|as an? (?:ai|language model)|cannot be (?:paraphrased|rewritten)|no (?:paraphrase|sentence) (?:can|could|was)"
    r"|(?:need|provide|give me) (?:more|a|the) (?:context|sentence|information))\b",
    re.I,
)
_REMARK = re.compile(
    r"^(?:sure|certainly|of course|okay|here(?:'s| is| are) (?:the|a|an|your|one|some) (?:\w+ )?"
    r"(?:sentence|paraphrase|version|rewrite|answer|example)|the (?:rewritten|revised|new|changed) sentence)\b",
    re.I,
)


def read_sentence(answer: str) -> str:
    """The sentence in a model's answer, without the labels and quotation marks around it."""
    before, text = None, answer.strip()
    while before != text:
        before, text = text, cleaned(_LABEL.sub("", text.strip()).strip("*"))
    return text


def words_of(text: str) -> list[str]:
    return _WORD.findall(text.lower())


def key_of(text: str) -> str:
    """Equal for sentences that differ in case, punctuation and space alone."""
    return " ".join(words_of(text)) or text.strip()


def find_fault(answer: Generated, sentence: str, anchor: str, examples: Sequence[str], longest: int) -> str | None:
    """The rule that a sentence breaks as an answer to its anchor, None if none. examples: answers in the prompt."""
    if answer.ended == "no room":
        return NO_ROOM
    words, anchor_words = words_of(sentence), words_of(anchor)
    if not words:
        return EMPTY
    if fault := fault_of_words(sentence, words, longest):
        return fault
    if answer.ended == "limit":
        return CUT_OFF
    if len(words) > LENGTHENING * len(anchor_words) + MORE_WORDS:
        return TOO_LONG
    if words == anchor_words:
        return COPIED
    if any(words == words_of(example) for example in examples):
        return FROM_PROMPT
    if speaks_another_language(sentence, anchor):
        return OTHER_LANGUAGE
    return None


def fault_of_words(sentence: str, words: Sequence[str], longest: int) -> str | None:
    """What can be wrong with a generated sentence by itself."""
    if _REFUSAL.search(sentence):
        return REFUSED
    if _REMARK.match(sentence) or sentence.endswith((":", "：")):
        return REMARK
    if len(words) >= LOOPS_FROM and len(set(words)) < FEWEST_DIFFERENT * len(words):
        return LOOPING
    if len(words) > longest or len(sentence) > 12 * longest:
        return TOO_LONG
    return None


UNSCORED = "score that cannot be read"
WEAK_POSITIVE = "positive scored too low"
WEAK_NEGATIVE = "negative scored too high"
SMALL_GAP = "scores too near to each other"
_SCORE = re.compile(r"^\W*(?:score|similarity)?\W*([0-5](?:\.\d{1,2})?)(?![\d.]\d|\d)", re.I)
BEST = 5.0


@dataclass(frozen=True)
class Curation:
    """MultiCSR's second stage: with a and b, the model's scores of positive and negative, a triplet is kept if
    a ≥ alpha, b ≤ beta and a ≥ b + gap. swap: where the negative scores higher, the two change their roles first."""

    alpha: float = 3.0
    beta: float = 3.0
    gap: float = 1.0
    swap: bool = True

    def __post_init__(self) -> None:
        for name in ("alpha", "beta", "gap"):
            value = getattr(self, name)
            if not 0 <= value <= BEST:
                raise SettingError(f"{name}: {value} is not within 0 and {BEST:g}, as scores are.", argument=name)

    def swaps(self, positive: float, negative: float) -> bool:
        return self.swap and negative > positive

    def fault(self, positive: float, negative: float) -> str | None:
        """Of scores that have their roles."""
        if positive < self.alpha:
            return WEAK_POSITIVE
        if negative > self.beta:
            return WEAK_NEGATIVE
        return SMALL_GAP if positive < negative + self.gap else None


def read_score(answer: str) -> float | None:
    """The number that an answer begins with, from 0 to 5."""
    found = _SCORE.match(answer.strip())
    if found is None or float(found[1]) > BEST:
        return None
    return float(found[1])
