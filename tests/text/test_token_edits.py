"""PCL's edits: what changes, and what must stay."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from nearer.text.token_edits import Edit, edit_tokens

IDS = np.array([2, *range(10, 20), 3])


def edited(edit: Edit, seed: int = 0, longest: int = 99, ids: np.ndarray = IDS) -> list[int]:
    return edit_tokens(ids, edit, 0.2, longest, np.random.default_rng(seed)).tolist()


@pytest.mark.parametrize("edit", ["shuffle", "reverse", "delete", "insert"])
def test_both_ends_and_short_sentences_stay(edit: Edit) -> None:
    found = edited(edit)
    assert (found[0], found[-1]) == (2, 3)
    assert found != IDS.tolist()
    assert edited(edit, ids=np.array([2, 10, 3])) == [2, 10, 3]


def test_what_is_left() -> None:
    assert sorted(edited("shuffle")) == sorted(IDS.tolist())
    assert edited("reverse")[1:-1] == list(range(19, 9, -1))
    deleted = edited("delete")
    assert len(deleted) == 10
    assert [token for token in IDS.tolist() if token in deleted] == deleted


@pytest.mark.parametrize(("longest", "more"), [(99, 2), (13, 1), (12, 0)])
def test_inserted_tokens_are_the_sentences_own_as_far_as_there_is_room(longest: int, more: int) -> None:
    found = edited("insert", longest=longest)
    assert len(found) == 12 + more
    assert set(found) == set(IDS.tolist())
    assert sum((Counter(found) - Counter(IDS.tolist())).values()) == more
