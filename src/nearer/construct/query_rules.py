"""What a generated query must be, and the names of what it may break; how an answer becomes a query.

A query that is copied from its passage teaches to match words; one that speaks of "the passage" is nobody's.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import Literal, get_args

from nearer.construct.list_growth import cleaned

Style = Literal["question", "keywords", "claim", "plain_words"]
STYLES: tuple[Style, ...] = get_args(Style)

EMPTY = "empty"
CUT_OFF = "cut off at the limit of new tokens"
NO_ROOM = "prompt longer than the model's window"
TOO_LONG = "too long"
COPIED = "copied from the passage"
FROM_PROMPT = "copied from an example of the prompt"
SAME_WORDS = "plain words that are the passage's own"
OTHER_LANGUAGE = "in another language than the passage"
ANSWERED = "an answer or a remark instead of a query"
ABOUT_PASSAGE = "speaks of the passage itself"
REPEATED = "written for another passage already"

MOST_WORDS = {"question": 32, "keywords": 10, "claim": 40, "plain_words": 32}
COPIED_WORDS = 7  # on end
SHORT_WORD = 3  # letters: such words say little
MOST_SHARED = 0.75  # of the longer words of a query in plain words
_WORD = re.compile(r"\w+")
_LABEL = re.compile(
    r"^\W*(?:(?:search )?(?:question|query|search(?: words)?|keywords?|statement|claim|text|answer)s?\s*[:：]\s*)+",
    re.I,
)
_NUMBER = re.compile(r"^(?:[-*•]|\d{1,2}[.)])\s+")
_REMARK = re.compile(
    r"^(?:sure|here(?:'s| is| are)|certainly|of course|yes[,.]|no[,.]|the (?:answer|question|query|statement) is"
    r"|i (?:am sorry|'m sorry|cannot|can't)|as an ai|sorry)\b",
    re.I,
)
_ABOUT = re.compile(
    r"\b(?:this (?:passage|text|paragraph|excerpt|article|snippet|function|method|class|code|document|statement)"
    r"|the (?:above|following|given|provided) \w+|the (?:passage|paragraph|excerpt|author|code snippet)"
    r"|(?:in|of|by|to) the text|the text (?:says?|supports?|describes?|mentions?|is about|states?))\b",
    re.I,
)
_ASKS = re.compile(
    r"^(?:what|how|why|when|where|who|whom|whose|which|is|are|am|was|were|do|does|did|can|could|should|would|will|may"
    r"|might|has|have|had|if|in what|in which|at what|to what|for how|wie|was|warum|wann|wo|wer|welche\w*|kann|ist|sind"
    r"|comment|pourquoi|quel\w*|que|qui|où|quand|est-ce|cómo|qué|por qué|cuál\w*|cuándo|dónde|quién)\b",
    re.I,
)
# Common words of languages in Latin letters, by which a text of some length gives itself away
_COMMON = {
    "en": "the of and to in is that for it with as are on was be this by not or have from at which you can",
    "de": "der die und das ist nicht ein eine zu den mit von auf für im sich dem werden wie auch es wird oder sind bei",
    "fr": "le la les et des est une dans que pour qui sur pas par avec ce il au plus sont du ne se comment ou",
    "es": "el los las que es una por con para del se no su como más al lo pero sus esta este son hay cómo",
    "it": "il di che è la per una non con del della sono le gli dei nel si da come anche al più questo alla",
    "pt": "o os que do da em um uma para com não é se por mais as dos como mas foi ao das tem à seu",
    "nl": "de het een van en is dat niet op te zijn voor met die in aan er maar om ook als bij door naar wordt",
}
_LANGUAGES = {name: frozenset(words.split()) for name, words in _COMMON.items()}
_SCRIPTS = {
    "latin": re.compile(r"[A-Za-zÀ-ɏ]"),
    "cyrillic": re.compile(r"[Ѐ-ӿ]"),
    "greek": re.compile(r"[Ͱ-Ͽ]"),
    "arabic": re.compile(r"[؀-ۿ]"),
    "hebrew": re.compile(r"[֐-׿]"),
    "devanagari": re.compile(r"[ऀ-ॿ]"),
    "kana": re.compile(r"[぀-ヿ]"),
    "han": re.compile(r"[㐀-鿿]"),
    "hangul": re.compile(r"[가-힣]"),
}


def read_query(answer: str, style: Style) -> str:
    """The query in a model's answer, without the labels, quotation marks and list marks around it."""
    before, text = None, answer.strip()
    while before != text:
        before, text = text, cleaned(_NUMBER.sub("", _LABEL.sub("", text.strip())).strip("*"))
    text = text.replace("`", "")
    return text.rstrip(" .,;") if style == "keywords" else text


def find_fault(query: str, passage: str, style: Style, examples: Sequence[str] = ()) -> str | None:
    """The rule that a query breaks, None if none. examples: queries that stand in the prompt."""
    words = _WORD.findall(query.lower())
    if not words:
        return EMPTY
    if any(is_alike(words, _WORD.findall(example.lower())) for example in examples):
        return FROM_PROMPT
    if (len(words) > MOST_WORDS[style] and not _is_wide(query)) or len(query) > 12 * MOST_WORDS[style]:
        return TOO_LONG
    if _REMARK.match(query) or query.endswith(":"):
        return ANSWERED
    if style == "question" and not (query.rstrip("\"'”)").endswith(("?", "？", "؟")) or _ASKS.match(query)):
        return ANSWERED
    if _ABOUT.search(query):
        return ABOUT_PASSAGE
    words_of_passage = _WORD.findall(passage.lower())
    if is_copied(words, words_of_passage):
        return COPIED
    if style == "plain_words" and has_same_words(words, set(words_of_passage)):
        return SAME_WORDS
    return OTHER_LANGUAGE if speaks_another_language(query, passage) else None


def is_alike(query: list[str], other: list[str]) -> bool:
    """Whether two queries share more than half of their words, or five on end."""
    runs = {tuple(other[n : n + 5]) for n in range(len(other) - 4)}
    return len(set(query) & set(other)) > 0.5 * len(set(query) | set(other)) or any(
        tuple(query[n : n + 5]) in runs for n in range(len(query) - 4)
    )


def is_copied(query: list[str], passage: list[str]) -> bool:
    """Whether seven words on end stand in the passage, or the whole of a shorter query of more than three."""
    length = min(COPIED_WORDS, len(query))
    if length <= 3:
        return False
    runs = {tuple(passage[n : n + length]) for n in range(len(passage) - length + 1)}
    return any(tuple(query[n : n + length]) in runs for n in range(len(query) - length + 1))


def has_same_words(query: list[str], passage: set[str]) -> bool:
    """Whether more than three quarters of the query's longer words stand in the passage."""
    longer = [word for word in query if len(word) > SHORT_WORD]
    return sum(word in passage for word in longer) > MOST_SHARED * len(longer)


def speaks_another_language(query: str, passage: str) -> bool:
    """By the script, and in Latin letters by common words where there are enough of them to tell."""
    scripts = main_script(query), main_script(passage)
    if None in scripts or set(scripts) == {"kana", "han"}:
        return False
    if scripts[0] != scripts[1]:
        return True
    languages = main_language(query), main_language(passage)
    return scripts[0] == "latin" and None not in languages and languages[0] != languages[1]


def main_script(text: str) -> str | None:
    counts = Counter({name: len(pattern.findall(text)) for name, pattern in _SCRIPTS.items()})
    if counts["kana"]:
        counts["kana"] += counts.pop("han")  # Japanese is written in both
    name, count = counts.most_common(1)[0]
    return name if count else None


def main_language(text: str) -> str | None:
    """None where it cannot be told: at least two common words, and twice as many as of any other language."""
    words = _WORD.findall(text.lower())
    counts = Counter({name: sum(word in common for word in words) for name, common in _LANGUAGES.items()})
    (name, count), (_, second) = counts.most_common(2)
    return name if count >= 2 and count >= 2 * second else None


def _is_wide(text: str) -> bool:
    """Written without spaces."""
    return main_script(text) in ("han", "kana")
