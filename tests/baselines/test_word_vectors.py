"""Reading word vectors: GloVe's, word2vec's and fastText's text files, and lines that are none."""

from __future__ import annotations

import bz2
import gzip
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from word_file import VECTORS

from nearer.baselines import static_words as word_vectors
from nearer.baselines.static_words import read_word_vectors
from nearer.errors import InputError


def test_all_words_with_their_numbers(glove: Path) -> None:
    read = read_word_vectors(glove)
    assert list(read.words) == list(VECTORS)  # ". . ." has spaces in it, as some of GloVe's words have
    assert read.vectors.dtype == np.float32
    for word, vector in VECTORS.items():
        np.testing.assert_allclose(read.vectors[read.words[word]], vector, rtol=1e-6)
    assert read.repeated == 0


@pytest.mark.parametrize("size", [1, 2, 100])
def test_whatever_the_block(glove: Path, size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = read_word_vectors(glove)
    monkeypatch.setattr(word_vectors, "AT_ONCE", size)
    np.testing.assert_array_equal(read_word_vectors(glove).vectors, whole.vectors)


def test_needed_words_only(glove: Path) -> None:
    read = read_word_vectors(glove, needed={"cat", "sat", "unheard"})
    assert read.words == {"cat": 0, "sat": 1}
    np.testing.assert_array_equal(read.vectors, [[0, 1, 0], [0, 0, 1]])


@pytest.mark.parametrize(("suffix", "pack"), [("gz", gzip.compress), ("bz2", bz2.compress)])
def test_compressed(glove: Path, suffix: str, pack: Callable[[bytes], bytes]) -> None:
    packed = glove.with_suffix(f".{suffix}")
    packed.write_bytes(pack(glove.read_bytes()))
    np.testing.assert_array_equal(read_word_vectors(packed).vectors, read_word_vectors(glove).vectors)


def test_a_heading_and_spaces_at_the_end_of_lines(tmp_path: Path) -> None:
    path = tmp_path / "model.vec"
    path.write_text("2 3\r\na 1 2 3 \r\nb 4 5 -6e-1 \r\n")
    read = read_word_vectors(path)
    assert read.words == {"a": 0, "b": 1}
    np.testing.assert_allclose(read.vectors, [[1, 2, 3], [4, 5, -0.6]])


def test_odd_characters_are_words_too(tmp_path: Path) -> None:
    path = tmp_path / "odd.txt"
    path.write_text("\x85 1 2\n\u2028 3 4\n東京 5 6\n", "utf-8")
    assert list(read_word_vectors(path).words) == ["\x85", "\u2028", "東京"]


def test_the_first_of_two_lines_of_a_word_counts(tmp_path: Path) -> None:
    path = tmp_path / "twice.txt"
    path.write_text("a 1 2\na 3 4\nb 5 6\n")
    read = read_word_vectors(path)
    assert (read.words, read.repeated) == ({"a": 0, "b": 1}, 1)
    assert read.vectors[0].tolist() == [1, 2]


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"a 1 2\nb 3\n", "line 2 has 2 columns, a word and 2 numbers are needed"),
        (b"a 1 2\n\nb 3 4\n", "line 2 has 1 columns"),
        (b"a 1 2\nb 3 x\n", "line 2: 2 finite numbers are needed behind the word"),
        (b"a 1 2\nb 3 nan\n", "line 2: 2 finite numbers"),
        (b"a 1 2\nb 3 inf\n", "line 2: 2 finite numbers"),
        (b"a 1 2\nb 3,5 4\n", "line 2: 2 finite numbers"),
        (b"a 1 2\nb 3 \xc3\xa4\n", "line 2: 2 finite numbers"),
        (b"a 1 2\n\xff\xfe 3 4\n", "line 2: its word is not UTF-8"),
        (b"a 1 2\n 3 4\n", "line 2 has no word before its numbers"),
        (b"alone\n", "line 1 has 1 columns, a word and numbers with spaces between them are needed"),
        (b"a\t1\t2\n", "line 1 has 1 columns"),
        (b"", "holds no lines with a word and numbers"),
        (b"3 2\n", "holds no lines with a word and numbers"),
    ],
)
def test_a_bad_line_is_named(content: bytes, told: str, tmp_path: Path) -> None:
    path = tmp_path / "bad.txt"
    path.write_bytes(content)
    with pytest.raises(InputError, match=told) as caught:
        read_word_vectors(path)
    assert str(caught.value).startswith(f"{path}: ")
    assert "\n" not in str(caught.value)


def test_none_of_the_needed_words(glove: Path) -> None:
    with pytest.raises(InputError, match="holds none of the words asked for"):
        read_word_vectors(glove, needed={"unheard"})


def test_damage_and_no_file(glove: Path, tmp_path: Path) -> None:
    packed = tmp_path / "cut.gz"
    packed.write_bytes(gzip.compress(glove.read_bytes())[:-12])
    with pytest.raises(InputError, match="the compressed data is damaged"):
        read_word_vectors(packed)
    with pytest.raises(InputError, match="no such file"):
        read_word_vectors(tmp_path / "none.txt")


def test_an_endless_line_is_not_held(tmp_path: Path) -> None:
    path = tmp_path / "long.txt"
    path.write_bytes(b"a 1 2\n" + b"1 " * 3_000_000)
    with pytest.raises(InputError, match="line 2 has 6,000,000 bytes"):
        read_word_vectors(path)
