"""Ranking lists of one length: what is cut and what is dropped, with an account; and their sentences one by one."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nearer.errors import InputError, SettingError
from nearer.text import Fault, ReadOptions, read_ranking_lists
from nearer.text.reading_filters import EqualLists, ListedSentences
from nearer.text.token_store import open_store

LISTS = [["a b", "c", "d"], ["e", "f"], ["g", "h", "i", "j"], ["alone"], ["k", "l", "m"]]


def written(path: Path, lists: list[list[str]]) -> Path:
    path.write_text("".join(json.dumps({"sentences": sentences, "made_by": "hand"}) + "\n" for sentences in lists))
    return path


def test_longer_lists_are_cut_and_shorter_ones_dropped_with_their_lines(tmp_path: Path) -> None:
    reading = EqualLists(written(tmp_path / "lists.jsonl", LISTS), ReadOptions(), 3)
    kept = [(line, ranking.sentences) for line, ranking in reading.located()]
    assert kept == [(1, ("a b", "c", "d")), (3, ("g", "h", "i")), (5, ("k", "l", "m"))]
    report = reading.report
    assert (report.read, report.kept, report.dropped) == (5, 3, 2)
    assert report.tallies[Fault.SHORT_LIST].examples == [(2, "2 sentences")]
    assert report.tallies[Fault.LONG_LIST].examples == [(3, "4 sentences")]
    assert "1 shorter than list_length (dropped; lower list_length to keep them): line 2 (2 sentences)" in str(report)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.lists(st.sampled_from("abcdef"), min_size=1, max_size=6), max_size=8), st.integers(2, 5))
def test_every_list_is_accounted_for(
    tmp_path_factory: pytest.TempPathFactory, lists: list[list[str]], length: int
) -> None:
    path = written(tmp_path_factory.mktemp("lists") / "lists.jsonl", lists)
    reading = EqualLists(path, ReadOptions(), length)
    assert [ranking.sentences for ranking in reading] == [tuple(each[:length]) for each in lists if len(each) >= length]
    assert reading.report.read == len(lists) == reading.report.kept + reading.report.dropped
    assert reading.report.count(Fault.LONG_LIST) == sum(len(each) > length for each in lists)


def test_a_length_that_leaves_nothing_to_rank_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingError, match="list_length: 1 leaves nothing to rank"):
        EqualLists(tmp_path / "lists.jsonl", ReadOptions(), 1)


def test_digests_tell_lengths_and_sentences_apart(tmp_path: Path) -> None:
    path = written(tmp_path / "lists.jsonl", LISTS)
    plain, two, three = read_ranking_lists(path), EqualLists(path, ReadOptions(), 2), EqualLists(path, ReadOptions(), 3)
    readings = [plain, two, three, ListedSentences(two), ListedSentences(three)]
    assert len({reading.fingerprint() for reading in readings}) == 5
    assert three.fingerprint() == EqualLists(path, ReadOptions(), 3).fingerprint()
    before = ListedSentences(three).fingerprint()
    written(path, LISTS[::-1])
    assert ListedSentences(three).fingerprint() != before


def test_sentences_stand_one_list_after_the_other_under_the_lists_account(tmp_path: Path) -> None:
    sentences = ListedSentences(EqualLists(written(tmp_path / "lists.jsonl", LISTS), ReadOptions(), 3))
    assert list(sentences) == ["a b", "c", "d", "g", "h", "i", "k", "l", "m"]
    assert list(sentences.located())[4] == (3, "h")
    assert (sentences.report.read, sentences.report.kept) == (5, 3)
    empty = ListedSentences(read_ranking_lists(written(tmp_path / "none.jsonl", [["alone"]])))
    assert list(empty) == []
    with pytest.raises(InputError, match="nothing in it could be used"):
        empty.report.check_kept()


def test_a_store_holds_a_list_as_one_record_and_names_the_line_that_differs(
    tmp_path: Path, tiny_model: Callable[[str], Path]
) -> None:
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(tiny_model("bert"))
    path = written(tmp_path / "lists.jsonl", LISTS)
    with pytest.raises(InputError) as error:
        open_store(read_ranking_lists(path), tokenizer, max_length=16)
    assert str(error.value) == (
        f"{path}: line 2 has 2 sentences, those before it have 3; list_length=2 cuts longer lists to 2, and leaves out "
        "shorter ones."
    )
    store = open_store(EqualLists(path, ReadOptions(), 3), tokenizer, max_length=16)
    assert (store.fields, len(store), store.sentences) == (3, 3, 9)
    assert tokenizer.decode(store[4], skip_special_tokens=True) == "h"
    assert len(open_store(EqualLists(path, ReadOptions(), 4), tokenizer, max_length=16)) == 1
