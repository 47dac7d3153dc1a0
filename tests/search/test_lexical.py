"""BM25 beside one written out by hand; words of any language; saved and loaded; damage is told."""

from __future__ import annotations

import math
import os
import string
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import hypothesis
import hypothesis.strategies as st
import numpy as np
import pytest

from nearer.errors import DamagedError, InputError, SettingError
from nearer.search.lexical import FEWEST_TEXTS, LexicalIndex
from nearer.search.words import find_words

pytest.importorskip("bm25s")

TEXTS = ["A man eats pasta.", "It rains.", "Rain on pasta?", "", "Rain, rain, RAIN!", "pasta"]


def by_hand(texts: Sequence[str], query: str) -> list[float]:
    """Lucene's BM25, k1 1.5, b 0.75, text by text."""
    rows = [find_words(text) for text in texts]
    mean = sum(map(len, rows)) / len(rows)
    scores = []
    for row in rows:
        score, counts = 0.0, Counter(row)
        for word in find_words(query):
            having = sum(word in other for other in rows)
            if counts[word]:
                rarity = math.log(1 + (len(rows) - having + 0.5) / (having + 0.5))
                score += rarity * counts[word] / (counts[word] + 1.5 * (1 - 0.75 + 0.75 * len(row) / mean))
        scores.append(score)
    return scores


words = st.text(string.ascii_lowercase[:4], min_size=1, max_size=2)
sentences = st.lists(words, max_size=6).map(" ".join)


class TestScores:
    @hypothesis.given(st.lists(sentences, min_size=1, max_size=8), sentences, st.integers(1, 10))
    def test_as_by_hand(self, texts: list[str], query: str, k: int) -> None:
        index = LexicalIndex.build(texts)
        expected = by_hand(texts, query)
        everything = index.scores([query], np.arange(len(texts))[None])[0]
        np.testing.assert_allclose(everything, expected, atol=1e-5)
        numbers, scores = index.top([query], k)
        assert numbers.shape == scores.shape == (1, k)
        best = sorted((n for n in range(len(texts)) if everything[n] > 0), key=lambda n: (-everything[n], n))[:k]
        assert numbers[0].tolist() == best + [-1] * (k - len(best))
        assert scores[0].tolist() == [everything[n] for n in best] + [0.0] * (k - len(best))

    def test_filled_candidates_have_no_score(self) -> None:
        index = LexicalIndex.build(TEXTS)
        scores = index.scores(["rain", "pasta"], np.array([[4, -1, 3], [-1, -1, 0]]))
        assert (scores > 0).tolist() == [[True, False, False], [False, False, True]]

    def test_terms_of_most_texts_are_left_out(self) -> None:
        texts = [f"the word{number % 7} {'rare' if number == 5 else ''}" for number in range(FEWEST_TEXTS)]
        index = LexicalIndex.build(texts)
        assert index.top(["the"], 3)[0].tolist() == [[-1, -1, -1]]
        assert index.top(["the rare"], 3)[0].tolist() == [[5, -1, -1]]
        assert (LexicalIndex.build(texts[1:]).top(["the"], 3)[0] >= 0).all()  # of few texts, none is

    @pytest.mark.parametrize("texts", [[], ["", " "], ["!", "?"]])
    def test_without_any_word(self, texts: list[str]) -> None:
        index = LexicalIndex.build(texts)
        assert len(index) == len(texts)
        assert index.top(["rain", ""], 2)[0].tolist() == [[-1, -1], [-1, -1]]


class TestWords:
    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            ("It's 3.5 %, SO!", ["it", "s", "3", "5", "so"]),
            ("snake_case", ["snake_case", "snake", "case"]),
            ("camelCase", ["camelcase", "camel", "case"]),
            ("HTTPServer2", ["httpserver2", "http", "server", "2"]),
            ("__init__", ["__init__"]),
            ("NASA ETFs", ["nasa", "etfs"]),
            ("naïveCase", ["naïvecase", "naïve", "case"]),
            ("Straße ÉTÉ", ["straße", "été"]),
            ("e\u0301te\u0301", ["été"]),
            ("हिन्दी में", ["हिन्दी", "में"]),
            ("東京都 rain", ["東京", "京都", "rain"]),
            ("雨", ["雨"]),
            ("東京tower", ["東京", "tower"]),
            ("สวัสดี", ["สว", "วั", "ัส", "สด", "ดี"]),
            ("мой Дом", ["мой", "дом"]),
            ("ｆｕｌｌ", ["full"]),
            ("", []),
        ],
    )
    def test_of_any_language(self, text: str, expected: list[str]) -> None:
        assert find_words(text) == expected

    @hypothesis.given(st.text())
    def test_of_any_text(self, text: str) -> None:
        assert all(word and not word.isspace() and "\n" not in word for word in find_words(text))


class TestFiles:
    def test_saved_and_loaded_it_is_the_same(self, tmp_path: Path) -> None:
        index = LexicalIndex.build([*TEXTS, "東京 snake_case"])
        index.save(tmp_path / "lexical")
        loaded = LexicalIndex.load(tmp_path / "lexical")
        assert len(loaded) == 7
        for given, found in zip(
            index.top(["rain pasta", "東京", "case"], 4), loaded.top(["rain pasta", "東京", "case"], 4), strict=True
        ):
            np.testing.assert_array_equal(given, found)

    def test_an_empty_one(self, tmp_path: Path) -> None:
        LexicalIndex.build([]).save(tmp_path / "lexical")
        assert len(LexicalIndex.load(tmp_path / "lexical")) == 0

    @pytest.mark.parametrize("name", ["data.npy", "indices.npy", "indptr.npy", "terms.txt", "lexical.json"])
    def test_damage_is_told(self, name: str, tmp_path: Path) -> None:
        LexicalIndex.build(TEXTS).save(tmp_path / "lexical")
        path = tmp_path / "lexical" / name
        content = bytearray(path.read_bytes())
        content[-3] ^= 1
        path.write_bytes(content)
        with pytest.raises(DamagedError, match=rf"{name}: is not what was written.*build it anew"):
            LexicalIndex.load(tmp_path / "lexical")

    def test_files_of_two_of_them(self, tmp_path: Path) -> None:
        LexicalIndex.build(TEXTS).save(tmp_path / "one")
        LexicalIndex.build(TEXTS[:2]).save(tmp_path / "two")
        (tmp_path / "one" / "checksums.json").unlink()
        (tmp_path / "two" / "indices.npy").replace(tmp_path / "one" / "indices.npy")
        with pytest.raises(DamagedError, match="do not fit each other"):
            LexicalIndex.load(tmp_path / "one")

    def test_another_folder(self, tmp_path: Path) -> None:
        with pytest.raises(InputError, match="is no lexical index"):
            LexicalIndex.load(tmp_path)


class TestRefused:
    def test_arguments(self) -> None:
        index = LexicalIndex.build(TEXTS)
        with pytest.raises(SettingError, match="k: 0 is below 1"):
            index.top(["a"], 0)
        with pytest.raises(InputError, match=r"shape \(2,\), \(1, k\) is needed"):
            index.scores(["a"], np.array([1, 2]))
        with pytest.raises(InputError, match="from −1 to 5, 1 to 6 given"):
            index.scores(["a"], np.array([[1, 6]]))
        with pytest.raises(InputError, match="item 1 is int"):
            LexicalIndex.build(["a", 3])  # type: ignore[list-item]


def test_jax_is_left_alone(tmp_path: Path) -> None:
    """bm25s imports it wherever it is installed, and a GPU's memory is gone."""
    lax = tmp_path / "jax" / "lax"
    lax.mkdir(parents=True)
    (tmp_path / "jax" / "__init__.py").write_text("print('jax was imported')")
    (lax / "__init__.py").write_text("def top_k(scores, k): print('jax was used')")
    code = "from nearer.search.lexical import LexicalIndex; LexicalIndex.build(['It rains.']); print('built')"
    path = os.pathsep.join([str(tmp_path), *filter(None, sys.path)])
    run = subprocess.run(
        [sys.executable, "-c", f"{code}; import jax"],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=True,
    )
    assert run.stdout.split("\n")[:2] == ["built", "jax was imported"]  # by us, and it is to be had still
