"""Texts that are longer than the model reads are counted and told, by every command that encodes text."""

from __future__ import annotations

import copy
import pickle
from pathlib import Path

import pytest

from nearer import Encoder, RankEncoder

LONG, SHORT = "the dog " * 100, "a fox"


@pytest.fixture
def text(tmp_path: Path) -> Path:
    path = tmp_path / "text.txt"
    path.write_text(f"{LONG}\n{SHORT}\nrain comes\n{LONG} and rain\n")
    return path


def exact_fit(encoder: Encoder, length: int) -> str:
    """Of `length` tokens to the last."""
    special = len(encoder.tokenizer("")["input_ids"])
    fitting = " ".join(["dog"] * (length - special))
    assert len(encoder.tokenizer(fitting)["input_ids"]) == length
    return fitting


def test_in_python(encoder: Encoder) -> None:
    assert (encoder.cut_texts.texts, encoder.cut_texts.cut) == (0, 0)
    encoder.encode([LONG, SHORT, LONG])  # equal ones are encoded once
    assert (encoder.cut_texts.texts, encoder.cut_texts.cut, encoder.cut_texts.max_length) == (2, 1, 64)
    assert str(encoder.cut_texts) == "1 of 2 texts were cut at 64 tokens"


def test_an_encoder_can_still_be_copied_and_sent(encoder: Encoder) -> None:
    encoder.encode(LONG)
    copied, sent = copy.deepcopy(encoder), pickle.loads(pickle.dumps(encoder.cut_counter))
    assert copied.cut_texts.cut == sent.found(64).cut == 1
    copied.encode(LONG)
    assert (copied.cut_texts.cut, encoder.cut_texts.cut) == (2, 1)


def test_one_that_just_fits_is_not_cut(encoder: Encoder) -> None:
    encoder.encode([exact_fit(encoder, 64)])
    assert encoder.cut_texts.cut == 0
    encoder.encode([exact_fit(encoder, 64) + " dog"])
    assert encoder.cut_texts.cut == 1


def test_of_a_rank_encoder_and_of_another_length(encoder: Encoder) -> None:
    ranks = RankEncoder.build(encoder, ["rain", "lunch"])
    ranks.rank("rain", [LONG])
    assert (ranks.cut_texts.texts, ranks.cut_texts.cut) == (4, 1)
    shorter = encoder.with_max_length(8)
    shorter.encode(exact_fit(encoder, 12))
    assert (shorter.cut_texts.cut, ranks.cut_texts.cut) == (1, 1)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("similarity", "MODEL", LONG, SHORT), "note: 1 of 2 texts were cut at 64 tokens (--max-length)"),
        (("similarity", "MODEL", LONG, LONG, "--max-length", "9"), "1 of 1 text was cut at 9 tokens (--max-length)"),
        (("rank", "MODEL", "rain", "TEXT"), "2 of 5 texts were cut at 64 tokens (--max-length)"),
        (("encode", "MODEL", "TEXT", "--out", "OUT.npy"), "2 of 4 texts were cut at 64 tokens (--max-length)"),
        (("embed", "MODEL", "TEXT"), "2 of 4 texts were cut at 64 tokens (--max-length)"),
        (
            ("search", "build", "MODEL", "TEXT", "--out", "OUT"),
            "2 of 4 texts were cut at 64 tokens (--max-length of",
        ),
        (("evaluate", "MODEL", "--tasks", "PAIRS"), "1 of 4 texts were cut at 64 tokens (--max-length)"),
        (("rank-encoder", "MODEL", "--corpus", "TEXT", "--out", "OUT"), "2 of 4 texts were cut at 64 tokens"),
    ],
)
def test_in_commands(nearer, pooled: Path, text: Path, tmp_path: Path, arguments: tuple[str, ...], told: str) -> None:
    pairs = tmp_path / "pairs.tsv"
    pairs.write_text(f"{LONG}\t{SHORT}\t1\nrain\tlunch\t2\n")
    places = {"MODEL": pooled, "TEXT": text, "PAIRS": pairs, "OUT": tmp_path / "out", "OUT.npy": tmp_path / "out.npy"}
    outcome = nearer(*(places.get(argument, argument) for argument in arguments))
    assert outcome.code == 0, outcome.err
    assert told in outcome.err.splitlines()[-1]


def test_nothing_is_told_where_nothing_was_cut(nearer, pooled: Path, encoder: Encoder) -> None:
    encoder.encode(LONG)  # not by the command
    assert nearer("similarity", pooled, SHORT, "rain").err == ""
