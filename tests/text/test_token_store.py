"""The token store: right tokens, found again, rebuilt when anything changed, whole under kills and races."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nearer.errors import InputError, SettingError
from nearer.text import read_pairs, read_sentences, read_triplets
from nearer.text import token_store as module
from nearer.text.token_store import TokenStore, open_store
from patience import HANG


@pytest.fixture(scope="module")
def tokenizer(tiny_model: Callable[[str], Path]) -> Any:
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(tiny_model("bert"))


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    words = ["the", "quick", "brown", "fox", "jumps", "over", "a", "lazy", "dog", "and", "rain", "comes"]
    draw = random.Random(5)
    lines = [" ".join(draw.choices(words, k=draw.randint(1, 30))) for _ in range(500)]
    (tmp_path / "corpus.txt").write_text("\n".join(lines) + "\n\n")
    return tmp_path / "corpus.txt"


def opened(corpus: Path, tokenizer: Any, **changes: Any) -> TokenStore:
    options = {"max_length": 16, "folder": corpus.parent / "stores", **changes}
    return open_store(read_sentences(corpus), tokenizer, **options)


def test_tokens_are_those_of_the_tokenizer_itself(
    corpus: Path, tokenizer: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "RECORDS_AT_ONCE", 64)  # several chunks
    store = opened(corpus, tokenizer)
    lines = corpus.read_text().split("\n")[:500]
    assert len(store) == store.sentences == 500
    for place, line in enumerate(lines):
        expected = tokenizer(line, truncation=True, max_length=16)["input_ids"]
        assert store[place].tolist() == expected
    assert store.lengths.tolist() == [len(store[place]) for place in range(500)]
    assert store.facts["report"]["dropped"] == 1
    assert store.tokens.dtype == np.uint16


def test_sentences_outside_are_refused(corpus: Path, tokenizer: Any) -> None:
    store = opened(corpus, tokenizer)
    for place in (-1, 500):
        with pytest.raises(IndexError):
            store[place]


def test_records_of_several_sentences_stand_side_by_side(tmp_path: Path, tokenizer: Any) -> None:
    path = tmp_path / "triplets.csv"
    path.write_text('sent0,sent1,hard_neg\na man,"eats, slowly",rain\nthe dog,jumps,fox\n')
    store = open_store(read_triplets(path), tokenizer, max_length=16, folder=tmp_path / "stores")
    assert (len(store), store.sentences, store.fields) == (2, 6, 3)
    assert store[1].tolist() == tokenizer("eats, slowly")["input_ids"]
    assert store[5].tolist() == tokenizer("fox")["input_ids"]


def test_scores_of_pairs_are_not_text(tmp_path: Path, tokenizer: Any) -> None:
    path = tmp_path / "pairs.tsv"
    path.write_text("a man\teats\t3.5\n")
    assert open_store(read_pairs(path), tokenizer, max_length=16, folder=tmp_path / "stores").fields == 2


def test_an_unchanged_text_is_not_tokenised_again(
    corpus: Path, tokenizer: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = opened(corpus, tokenizer)

    def never(*_: object) -> None:
        raise AssertionError("tokenised again")

    monkeypatch.setattr(module, "tokenise_counting", never)
    assert opened(corpus, tokenizer).folder == first.folder


def test_a_copy_elsewhere_is_the_same_text(corpus: Path, tokenizer: Any, tmp_path: Path) -> None:
    copy = tmp_path / "copy.txt"
    copy.write_bytes(corpus.read_bytes())
    assert opened(copy, tokenizer).folder == opened(corpus, tokenizer).folder


def test_any_change_of_text_tokenizer_or_setting_makes_another_store(corpus: Path, tokenizer: Any) -> None:
    import copy

    other = copy.deepcopy(tokenizer)
    other.add_tokens(["quick fox"])
    folders = [
        opened(corpus, tokenizer).folder,
        opened(corpus, tokenizer, max_length=17).folder,
        opened(corpus, tokenizer, text_normalisation="full_stop").folder,
        opened(corpus, other).folder,
    ]
    corpus.write_text(corpus.read_text() + "one more\n")
    folders.append(opened(corpus, tokenizer).folder)
    assert len(set(folders)) == len(folders)


def test_a_call_of_the_tokenizer_does_not_change_its_fingerprint(corpus: Path, tokenizer: Any) -> None:
    first = opened(corpus, tokenizer)
    tokenizer(["a", "b b b"], padding=True, truncation=True, max_length=5)
    assert opened(corpus, tokenizer).folder == first.folder


@pytest.mark.parametrize(
    "spoil",
    [
        lambda folder: (folder / "tokens.bin").write_bytes(b"short"),
        lambda folder: (folder / "offsets.bin").unlink(),
        lambda folder: (folder / "store.json").write_text("{"),
        lambda folder: (folder / "store.json").unlink(),
    ],
)
def test_a_damaged_store_is_built_anew(corpus: Path, tokenizer: Any, spoil: Callable[[Path], object]) -> None:
    folder = opened(corpus, tokenizer).folder
    expected = np.array(TokenStore(folder).tokens)
    spoil(folder)
    again = opened(corpus, tokenizer)
    np.testing.assert_array_equal(again.tokens, expected)


def test_an_empty_corpus_is_an_error_and_leaves_nothing(tmp_path: Path, tokenizer: Any) -> None:
    (tmp_path / "empty.txt").write_text("\n\n")
    with pytest.raises(InputError, match="nothing in it could be used"):
        opened(tmp_path / "empty.txt", tokenizer)
    assert [path.suffix for path in (tmp_path / "stores").iterdir()] in ([], [".lock"])


def test_wrong_settings_are_named(corpus: Path, tokenizer: Any) -> None:
    with pytest.raises(SettingError, match="max_length: 2"):
        opened(corpus, tokenizer, max_length=2)
    with pytest.raises(InputError, match="token store cannot be written"):
        opened(corpus, tokenizer, folder=corpus / "below-a-file")


BUILD = """
import sys
from pathlib import Path
from transformers import AutoTokenizer
from nearer.text import read_sentences
from nearer.text import token_store
token_store.RECORDS_AT_ONCE = 16
if sys.argv[4] == "die":
    import os, signal
    tokenise, calls = token_store.tokenise_counting, []
    def dying(*args):
        calls.append(1)
        if len(calls) == 5:
            os.kill(os.getpid(), signal.SIGKILL)
        return tokenise(*args)
    token_store.tokenise_counting = dying
tokenizer = AutoTokenizer.from_pretrained(sys.argv[2])
store = token_store.open_store(read_sentences(sys.argv[1]), tokenizer, max_length=16, folder=sys.argv[3])
print(store.folder, int(store.tokens.astype("int64").sum()))
"""


def _build(corpus: Path, model: Path, how: str) -> subprocess.Popen[str]:
    arguments = [sys.executable, "-c", BUILD, str(corpus), str(model), str(corpus.parent / "stores"), how]
    return subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"})


def test_a_kill_half_way_leaves_nothing_that_is_taken_for_a_store(
    corpus: Path, tokenizer: Any, tiny_model: Callable[[str], Path]
) -> None:
    killed = _build(corpus, tiny_model("bert"), "die")
    assert killed.wait(timeout=HANG) == -signal.SIGKILL
    stores = corpus.parent / "stores"
    assert any("unfinished" in path.name for path in stores.iterdir())
    store = opened(corpus, tokenizer)
    assert len(store) == 500
    assert not any("unfinished" in path.name for path in stores.iterdir())


def test_two_processes_at_once_end_with_one_whole_store(corpus: Path, tiny_model: Callable[[str], Path]) -> None:
    both = [_build(corpus, tiny_model("bert"), "live") for _ in range(2)]
    outputs = [process.communicate(timeout=HANG)[0] for process in both]
    assert [process.returncode for process in both] == [0, 0]
    assert outputs[0] == outputs[1]
    folders = [path for path in (corpus.parent / "stores").iterdir() if path.is_dir()]
    assert len(folders) == 1
    assert json.loads((folders[0] / "store.json").read_text())["sentences"] == 500
