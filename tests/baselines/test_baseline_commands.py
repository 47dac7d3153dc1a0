"""`nearer whiten` and `nearer static-words`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from nearer.baselines import StaticWords, whiten
from nearer.encoder import Encoder

Command = Callable[..., tuple[int, str]]


@pytest.fixture
def model(encoder: Encoder, tmp_path: Path) -> Path:
    encoder.save(tmp_path / "mean")
    return tmp_path / "mean"


@pytest.fixture
def table(texts: list[str], tmp_path: Path) -> Path:
    """Pairs with scores: a corpus by its columns, and a task."""
    path = tmp_path / "pairs.csv"
    rows = [
        f"{first},{second},{place % 6}"
        for place, (first, second) in enumerate(zip(texts[:75], texts[75:], strict=True))
    ]
    path.write_text("\n".join(["sentence1,sentence2,score", *rows]) + "\n")
    return path


def test_a_corpus_a_task_and_its_columns_are_the_same_text(
    command: Command, encoder: Encoder, model: Path, table: Path, texts: list[str], tmp_path: Path
) -> None:
    corpus = tmp_path / "corpus.txt"
    corpus.write_text("\n".join(texts) + "\n")
    wanted = whiten(encoder, texts, dimension=8).encode(texts[:5])
    ways = {
        "text": ("--corpus", corpus),
        "columns": ("--corpus", table, "--columns", "sentence1,sentence2"),
        "task": ("--tasks", table),
    }
    for name, options in ways.items():
        code, err = command("whiten", model, *options, "--out", tmp_path / name, "--dimension", 8, "--device", "cpu")
        assert code == 0, err
        assert f"{tmp_path / name}: whitened on 150 different sentences, 32 → 8" in err
        made = Encoder.load(tmp_path / name, device="cpu")
        np.testing.assert_allclose(np.abs(made.encode(texts[:5])), np.abs(wanted), atol=2e-3)
    assert Encoder.load(tmp_path / "text", device="cpu").provenance["whitening"]["text"] == str(corpus)


def test_flow(command: Command, model: Path, texts: list[str], tmp_path: Path) -> None:
    corpus = tmp_path / "corpus.txt"
    corpus.write_text("\n".join(texts) + "\n")
    code, err = command("flow", model, "--corpus", corpus, "--out", tmp_path / "flow", "--device", "cpu")
    assert (code, err.splitlines()[-1]) == (0, f"{tmp_path / 'flow'}: a flow fitted on 150 different sentences")
    assert Encoder.load(tmp_path / "flow", device="cpu").provenance["flow"]["text"] == str(corpus)
    corpus.write_text("a man\nlunch\n")
    code, err = command("flow", model, "--corpus", corpus, "--out", tmp_path / "other", "--device", "cpu")
    assert (code, err.splitlines()[-1][:43]) == (1, "error: flow: 2 vectors given, at least 32 a")


def test_static_words(command: Command, glove: Path, tmp_path: Path) -> None:
    code, err = command("static-words", glove, "--out", tmp_path / "all")
    assert (code, err.splitlines()[-1]) == (0, f"{tmp_path / 'all'}: 9 words, 3 dimensions")
    text = tmp_path / "text.txt"
    text.write_text("The cat\n")
    assert command("static-words", glove, "--needed", text, "--out", tmp_path / "some")[0] == 0
    assert set(StaticWords.load(tmp_path / "some").words) == {"the", "cat"}


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ((), "--corpus or --tasks: name the text to fit on, one of the two"),
        (("--corpus", "a.txt", "--tasks", "stsb"), "one of the two"),
        (("--corpus", "none.txt"), "none.txt: no such file"),
        (("--tasks", "stsb"), "needs the folder of the STS sets; name it by data (--data DIR)"),
    ],
)
def test_mistakes_are_one_line(
    command: Command, model: Path, tmp_path: Path, options: tuple[str, ...], told: str
) -> None:
    code, err = command("whiten", model, *options, "--out", tmp_path / "white")
    assert code == 1
    assert told in err.splitlines()[-1]
    assert not (tmp_path / "white").exists()


def test_texts_that_are_too_small(command: Command, model: Path, tmp_path: Path) -> None:
    corpus = tmp_path / "corpus.txt"
    corpus.write_text("")
    code, err = command("whiten", model, "--corpus", corpus, "--out", tmp_path / "white", "--device", "cpu")
    assert (code, err.splitlines()[-1]) == (1, f"error: {corpus}: nothing in it could be used.")
    corpus.write_text("a man\nlunch\nrain\n")
    options = ("--corpus", corpus, "--out", tmp_path / "white", "--device", "cpu", "--dimension", 8)
    code, err = command("whiten", model, *options)
    assert code == 1
    assert "error: dimension: 8 is not between 1 and 2" in err


def test_folders_that_are_there_already(command: Command, model: Path, glove: Path) -> None:
    for name, first in (("whiten", model), ("flow", model), ("static-words", glove)):
        code, err = command(name, first, "--out", model)
        assert (code, err) == (1, f"error: {model}: is there already; choose another folder.\n")


def test_a_bad_line_is_named(command: Command, glove: Path, tmp_path: Path) -> None:
    with glove.open("a") as file:
        file.write("broken 1 2\n")
    code, err = command("static-words", glove, "--out", tmp_path / "out")
    assert (code, err.splitlines()[-1]) == (
        1,
        f"error: {glove}: line 10 has 3 columns, a word and 3 numbers are needed.",
    )
