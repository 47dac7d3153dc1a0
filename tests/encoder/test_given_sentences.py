"""What may be given as sentences in Python, and what only looks like a list of them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from nearer import Encoder, RankEncoder
from nearer.baselines import StaticWords
from nearer.errors import InputError, PoolingError

CANDIDATES = ["a cat sleeps", "the market fell", "a dog sleeps"]


@pytest.fixture(scope="module")
def encoder() -> Encoder:
    return Encoder.load("wiki-mini", device="cpu")


@pytest.fixture(scope="module")
def models(encoder: Encoder, tmp_path_factory: pytest.TempPathFactory) -> list[Any]:
    words = tmp_path_factory.mktemp("words") / "words.txt"
    words.write_text("a 1 0\ncat 0 1\n")
    return [encoder, RankEncoder.build(encoder, CANDIDATES), StaticWords.read(words)]


def test_the_bundled_model_knows_its_pooling(encoder: Encoder) -> None:
    assert encoder.settings.pooling == "mean"
    named = Encoder.load("wiki-mini", pooling="mean", device="cpu")
    assert (named.encode("a cat") == encoder.encode("a cat")).all()
    assert Encoder.load("wiki-mini", pooling="cls", device="cpu").settings.pooling == "cls"


def test_a_string_is_no_list_of_candidates(models: list[Any]) -> None:
    for model in models:
        with pytest.raises(InputError, match=r"candidates: is one string; give a list .*\['a cat sleeps'\]"):
            model.rank("a cat", "a cat sleeps")


def test_one_query_is_ranked_at_a_time(encoder: Encoder) -> None:
    with pytest.raises(InputError, match="query: is a list, one string is needed"):
        encoder.rank(["a cat"], CANDIDATES)  # type: ignore[arg-type]


def test_any_iterable_is_a_list_of_candidates(models: list[Any]) -> None:
    for model in models:
        expected = model.rank("a cat", CANDIDATES)
        assert model.rank("a cat", iter(CANDIDATES)) == model.rank("a cat", tuple(CANDIDATES)) == expected
        assert model.rank("a cat", iter([])) == []


@pytest.mark.parametrize(
    "call",
    [
        lambda model, given: model.encode(given),
        lambda model, given: model.similarity("a cat", given),
        lambda model, given: model.rank("a cat", given),
    ],
)
def test_a_table_is_no_list_of_sentences_but_its_column_is(models: list[Any], call: Callable[[Any, Any], Any]) -> None:
    pandas, datasets = pytest.importorskip("pandas"), pytest.importorskip("datasets")
    for table in (pandas.DataFrame({"text": CANDIDATES}), datasets.Dataset.from_dict({"text": CANDIDATES})):
        for model in models:
            with pytest.raises(InputError, match=r"of columns; give one of them, as \w+\['text'\]"):
                call(model, table)
            call(model, table["text"])


@pytest.mark.parametrize("given", [{"a cat": 1}, b"a cat", 3, None])
def test_what_is_no_list_of_sentences(encoder: Encoder, given: Any) -> None:
    with pytest.raises(InputError, match=f"sentences: is a {type(given).__name__}; give a list of sentences"):
        encoder.encode(given)


def test_a_string_is_no_corpus_of_a_rank_encoder(encoder: Encoder) -> None:
    with pytest.raises(InputError, match="sentences: is one string"):
        RankEncoder.build(encoder, "a cat sleeps")


def test_an_error_names_the_argument_and_not_the_option(tiny_model: Callable[[str], Path]) -> None:
    with pytest.raises(PoolingError, match="name the pooling: cls") as raised:
        Encoder.load(tiny_model("bert"))
    assert raised.value.argument == "pooling"
    assert "--" not in str(raised.value)
