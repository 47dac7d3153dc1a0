"""Duplicates, near duplicates and boilerplate, beside slow and obvious versions."""

from __future__ import annotations

import random
import re

from hypothesis import given
from hypothesis import strategies as st

from nearer.adaptation.boilerplate import remove_boilerplate
from nearer.adaptation.duplicates import NEAR, find_duplicates, find_near_duplicates

WORDS = [f"word{number}" for number in range(300)]


def near_by_hand(texts: list[str]) -> dict[int, int]:
    """All pairs, by sets of tuples."""

    def shingles(text: str) -> set[tuple[str, ...]]:
        words = re.findall(r"\w+", text.lower())
        return {tuple(words[n : n + 5]) for n in range(len(words) - 4)} if len(words) >= 12 else set()

    sets = [shingles(text) for text in texts]
    found: dict[int, int] = {}
    for number, own in enumerate(sets):
        for earlier in range(number):
            union = own | sets[earlier]
            if own and earlier not in found and len(own & sets[earlier]) / len(union) >= NEAR:
                found[number] = earlier
                break
    return found


def test_near_duplicates_are_those_of_all_pairs() -> None:
    draw = random.Random(0)
    texts = [" ".join(draw.choices(WORDS, k=draw.randint(5, 120))) for _ in range(60)]
    for original in texts[:40]:
        words = original.split()
        for _ in range(draw.randint(0, 6)):  # from nearly the same to something else
            words[draw.randrange(len(words))] = draw.choice(WORDS)
        texts.append(" ".join(words))
    found = find_near_duplicates(texts)
    assert found == near_by_hand(texts)
    assert 10 < len(found) < 40


def test_near_duplicates_of_odd_texts() -> None:
    assert find_near_duplicates([]) == {}
    assert find_near_duplicates(["", "short", "short"]) == {}
    japanese = "今日は雨が降っているので傘を持って出かけました"
    assert find_near_duplicates([japanese, japanese + "。", "x"]) == {1: 0}
    alike = ["the same text with some more words than twelve so that it counts as one"] * 500
    assert find_near_duplicates(alike) == dict.fromkeys(range(1, 500), 0)


@given(st.lists(st.sampled_from(["A b", "a  B", "a b c", "", " ", "ß", "SS"]), max_size=8))
def test_duplicates_by_hand(texts: list[str]) -> None:
    folded = [" ".join(text.lower().split()) for text in texts]
    assert find_duplicates(texts) == {n: folded.index(t) for n, t in enumerate(folded) if folded.index(t) != n}


HEAD, FOOT = "My site | Home | About", "© 2020 by us, page 7"


def test_heads_and_feet_go_and_what_recurs_inside_stays() -> None:
    bodies = [f"Text {'abcdefgh'[n]} begins.\nreturn None\nIt ends {'abcdefgh'[n]}." for n in range(8)]
    texts, found = remove_boilerplate(
        [f"{HEAD}\n\n{body}\n\n{FOOT.replace('7', str(n))}" for n, body in enumerate(bodies)]
    )
    assert texts == bodies
    assert found.documents == 8
    assert dict(found.blocks) == {HEAD: 8, "© 0 by us, page 0": 8}
    assert remove_boilerplate(bodies)[0] == bodies


def test_paragraphs_that_recur_go_wherever_they_stand() -> None:
    licence = "Permission is granted to anybody who wants it to do with this whatever they like, for ever and a day."
    texts = [f"First {n * 'x'}.\n\n{licence}\n\nLast {n * 'y'}." for n in range(1, 7)]
    cut, found = remove_boilerplate(texts)
    assert cut[2] == "First xxx.\n\n\nLast yyy."
    assert found.words == 6 * len(licence.split())
    assert remove_boilerplate(texts[:4])[0] == texts[:4]  # four may be chance


def test_a_document_that_is_nothing_else_is_kept() -> None:
    texts = [f"{HEAD}\n{FOOT}", *(f"{HEAD}\nAbout {'abcdef'[n]}.\n{FOOT}" for n in range(6))]
    cut, found = remove_boilerplate(texts)
    assert cut[0] == texts[0]
    assert cut[1] == "About a."
    assert found.whole == 1
    assert "1 documents that are nothing else are kept" in str(found)


@given(st.lists(st.text(alphabet="ab\n `#1", max_size=30), max_size=12))
def test_no_document_loses_all_its_text(texts: list[str]) -> None:
    cut, _ = remove_boilerplate(texts)
    assert len(cut) == len(texts)
    for before, after in zip(texts, cut, strict=True):
        assert any(map(str.isalnum, before)) == any(map(str.isalnum, after))
