"""Cutting running text into sentences by rules: European languages, Chinese and Japanese; prose, posts and manuals.

The rules look at each mark that may end a sentence, with the word before it and the one behind it. docs/documents.md
compares them with libraries for this task.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

LONGEST_WORD = 40  # characters that are looked at
_CLOSING = "\"'”’»)\\]」』）】〉》*_"
_WIDE = "。！？｡"  # end a sentence without white space behind them
# Marks that may end a sentence, with what closes behind them. Possessive, so that a line of dots is looked at once.
_MARK = re.compile(rf"(?P<mark>[.!?…؟।۔{_WIDE}]++)(?P<closing>[{_CLOSING}]*+)")
_TIGHT = re.compile(r"[A-Z][a-z]{,20}\s")
# Items of lists, and empty lines: a new sentence begins behind them whatever stands before
_ITEM = r"(?:[-*•–]|\(?(?:\d{1,2}[.)]|[a-z]\)))\s+\S"
_BREAK = re.compile(
    rf"[:;.!?\n](?:(?<=\n)[^\S\n]*+(?:\n\s*+|(?={_ITEM}))|(?:(?<=[:;])|(?<=[a-z]{{4}}[.!?]))\s++(?={_ITEM}))"
)
_MARKER = re.compile(r"\(?(?:\d{1,2}|[A-Za-z])[.)]|[-*•–]")
_NEXT_WORD = re.compile(r"[\s\"'“‘«(\[¿¡„「『*_`]*([^\s\"”’»),.;:!?]*)")


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# Nothing ends behind these, whatever follows
_TITLES = _words(
    "dr mr mrs ms mme mlle prof st ste gen sen rep gov lt col sgt capt maj cmdr adm hon rev messrs sr sra "
    "srta dra ud uds fr hr hrsg e.g i.e cf vs viz z d z.b d.h u.a bzw ca approx resp incl excl viz al мин ул "
    "им см т тов гр"
)
# Nothing ends behind these before a number
_BEFORE_NUMBERS = _words(
    "no nos nr fig figs eq eqs sec secs ch chap vol vols p pp par art ver ref refs tab thm lem prop app ed pt "
    "ex str jan feb mar apr jun jul aug sep sept oct nov dec abs стр рис гл"
)
# A sentence may end behind these: it does before a word that begins sentences
_MAY_END = _words(
    "etc inc corp ltd co jr bros dept univ est assn ave blvd rd hwy mt ft min max avg vgl usw usf evtl ggf "
    "gmbh cie mio mrd hrs mins secs yr yrs mo mos lb lbs oz ext fig eq sec vol jan feb mar apr jun jul aug "
    "sep sept oct nov dec д п др г гг пр руб тыс млн млрд"
)
_STARTERS = _words(
    "the a an this that these those there here he she it they we you i my your his her its our their in on at "
    "as for from by to with without of and but or so yet if when while where what who why how which whose "
    "whether because since after before until unless although though however then thus therefore also still "
    "today yesterday tomorrow now once again is are was were do does did can could should would will may "
    "might must have has had not no yes nobody nothing some all any every each most many few one two both "
    "please see let note der die das ein eine er sie es wir ich und aber le la les un une il elle nous je et "
    "mais el los las una ella yo y pero"
)
_MONTHS = _words(
    "januar februar märz april mai juni juli august september oktober november dezember jänner jahrhundert"
)


def split_sentences(text: str) -> Iterator[str]:
    """The sentences of a text in their order, without the white space around them; nothing else is left out.

    Empty lines and items of lists end a sentence. Other line breaks are white space, since prose is often wrapped.
    """
    begin = 0
    for gap in _BREAK.finditer(text):
        yield from _split_part(text[begin : gap.start() + 1])
        begin = gap.end()
    yield from _split_part(text[begin:])


def _split_part(text: str) -> Iterator[str]:
    marks = [mark for mark in _MARK.finditer(text) if _may_end(text, mark)]
    lower = None  # does this writer begin sentences with small letters? Known only where it is asked
    start, length = 0, len(text.rstrip())
    for mark in marks:
        end = mark.end()
        if end >= length:
            break
        if mark["mark"][-1] not in _WIDE and text[end].isspace():
            following = _NEXT_WORD.match(text, end)
            after = following[1] if following else ""
            if after[:1].islower():
                if lower is None:
                    lower = _writes_lower(text, marks)
                ends = _ends_before_small_letter(text, start, mark, lower)
            else:
                ends = _ends_before_capital(text, start, mark, after)
            if not ends:
                continue
        if sentence := text[start:end].strip():
            yield sentence
        start = end
    if rest := text[start:].strip():
        yield rest


def _may_end(text: str, mark: re.Match[str]) -> bool:
    """Before white space or the end; in Chinese and Japanese unless the sentence goes on behind a quotation; and where
    the space was forgotten.Then a word that begins sentences follows."""
    end = mark.end()
    following = text[end : end + 1]
    if not following or following.isspace():
        return True
    if mark["mark"][-1] in _WIDE:
        return following not in "とっ、，"
    if mark["closing"] or len(mark["mark"]) > 1 or not "A" <= following <= "Z" or not _TIGHT.match(text, end):
        return False
    before = text[mark.start() - 1 : mark.start()]
    return (before.islower() or before.isdecimal() or before in "%)") and (
        text[end : end + 21].split(None, 1)[0].lower() in _STARTERS
    )


def _word_before(text: str, start: int, end: int) -> str:
    """The word that a mark at `end` belongs to, without what opens before it."""
    words = text[max(start, end - LONGEST_WORD) : end].rsplit(None, 1)
    if not words or text[end - 1].isspace():
        return ""
    return words[-1].lstrip("(\"'“‘«[„*_`")


def _ends_before_capital(text: str, start: int, mark: re.Match[str], after: str) -> bool:
    """Behind a mark before anything but a small letter."""
    if mark["mark"] != "." or mark["closing"]:
        # "Hmm... I think": one goes on after a pause
        return not (len(mark["mark"]) > 1 and mark["mark"][0] in ".…" and after in ("I", "I'm", "I'd", "I'll"))
    word = _word_before(text, start, mark.start())
    if not word:  # " . ": as in text that was cut into tokens
        return True
    small = word.lower()
    if text[start : mark.end()].strip() == f"{word}." and _MARKER.fullmatch(f"{word}."):
        return False  # the number of an item
    number = after[:1].isdecimal()
    if small in _TITLES or (number and small in _BEFORE_NUMBERS):
        return False
    if word.isdecimal():
        return after.lower() not in _MONTHS
    if small in _MAY_END or _is_dotted(word) or (len(word) == 1 and word.isalpha() and word != "I"):
        return after.lower() in _STARTERS
    return True


def _ends_before_small_letter(text: str, start: int, mark: re.Match[str], lower: bool) -> bool:
    word = _word_before(text, start, mark.start())
    if not word and mark["mark"] == ".":
        return True
    if mark["closing"] or (len(mark["mark"]) > 1 and mark["mark"][0] in ".…"):
        return False  # "Why?" she asked. Well... yes.
    if not lower:
        return False
    small = word.lower()
    listed = small in _TITLES or small in _MAY_END or small in _BEFORE_NUMBERS
    return mark["mark"] != "." or not (listed or _is_dotted(word) or len(word) == 1 or _MARKER.fullmatch(f"{word}."))


def _is_dotted(word: str) -> bool:
    """U.S, p.m, S.N.C.F: single letters with full stops between them."""
    parts = word.split(".")
    return len(parts) > 1 and all(len(part) == 1 and part.isalpha() for part in parts)


def _writes_lower(text: str, marks: list[re.Match[str]]) -> bool:
    """Whether more sentences begin with small letters than with capitals, as far as that can be told."""
    small = capital = 0
    for mark in marks:
        if mark["closing"] or mark["mark"] not in (".", "!", "?"):
            continue
        word = _word_before(text, 0, mark.start()).lower()
        if len(word) < 2 or word in _TITLES or word in _MAY_END or word in _BEFORE_NUMBERS or "." in word:
            continue
        following = _NEXT_WORD.match(text, mark.end())
        first = following[1][:1] if following else ""
        if first.islower():
            small += 1
        elif first.isupper() and following is not None and following[1] not in ("I", "I'm", "I've", "I'd"):
            capital += 1
    return small > capital
