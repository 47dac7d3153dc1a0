"""Stored vectors of texts that change, of models that go wrong, and in places where nothing can be kept."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from teacher_text import OTHERS, SENTENCES, write_lines

from nearer.encoder import Encoder
from nearer.errors import InputError
from nearer.teachers import VectorStore, vector_store
from nearer.text import read_sentences
from nearer.text.reading import Reading

Check = Callable[[VectorStore, Path], None]
pytestmark = pytest.mark.usefixtures("small_windows")


class TestTextThatChanges:
    """Between the readings of the text: nothing may be kept under the name of what it is not."""

    @pytest.mark.parametrize(
        "change",
        [
            lambda lines: [*lines[:-1], OTHERS[0]],
            lambda lines: [OTHERS[0], *lines[1:]],
            lambda lines: lines[::-1],
            lambda lines: lines[: len(lines) // 2],
            lambda lines: [*lines, OTHERS[0]],
            lambda lines: [],
        ],
    )
    @pytest.mark.parametrize("when", ["before the first reading", "before the second reading"])
    def test_is_told_and_does_no_harm(
        self,
        change: Callable[[list[str]], list[str]],
        when: str,
        encoder: Encoder,
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
        check_vectors: Check,
    ) -> None:
        before = write_lines(tmp_path / "before.txt", SENTENCES)
        after = write_lines(tmp_path / "after.txt", change(SENTENCES))
        text = Path(shutil.copy(before, tmp_path / "text.txt"))
        owner, function = (
            (Reading, "fingerprint") if when == "before the first reading" else (vector_store, "sentence_keys")
        )
        change_after(owner, function, lambda: shutil.copy(after, text), monkeypatch)
        with pytest.raises(InputError, match=r"text\.txt: (changed while it was read; run it again\.|nothing in it)"):
            VectorStore(encoder).rows(read_sentences(text))
        for path in (before, after):
            if path.stat().st_size:
                check_vectors(VectorStore(encoder), path)

    def test_and_changes_back(
        self, encoder: Encoder, corpus: Path, monkeypatch: pytest.MonkeyPatch, check_vectors: Check
    ) -> None:
        """So that its fingerprint at the end is the one it had at the beginning."""
        content, seen = corpus.read_text(), Reading.__iter__

        def shortened_once(self: Reading[str]):  # type: ignore[no-untyped-def]
            monkeypatch.setattr(Reading, "__iter__", seen_in_part)
            yield from seen(self)

        def seen_in_part(self: Reading[str]):  # type: ignore[no-untyped-def]
            monkeypatch.setattr(Reading, "__iter__", seen)
            corpus.write_text("\n".join(content.splitlines()[:20]))
            yield from seen(self)
            corpus.write_text(content)

        monkeypatch.setattr(Reading, "__iter__", shortened_once)
        with pytest.raises(InputError, match="changed while it was read"):
            VectorStore(encoder).rows(read_sentences(corpus))
        assert len(VectorStore(encoder).vectors()) == 20
        check_vectors(VectorStore(encoder), corpus)


def change_after(owner: object, name: str, change: Callable[[], object], monkeypatch: pytest.MonkeyPatch) -> None:
    """Let `change` happen after the first call of a function."""
    original = getattr(owner, name)

    def once(*arguments: object) -> object:
        found = original(*arguments)
        monkeypatch.setattr(owner, name, original)
        change()
        return found

    monkeypatch.setattr(owner, name, once)


class TestRefusals:
    def test_a_model_that_gives_no_numbers(self, tiny_model: Callable[[str], Path], corpus: Path) -> None:
        broken = Encoder.load(tiny_model("bert"), pooling="mean", device="cpu")
        with_rain = broken.tokenizer("rain")["input_ids"][1]
        broken.backbone.get_input_embeddings().weight.data[with_rain] = float("nan")
        store = VectorStore(broken)
        with pytest.raises(InputError, match="vectors that are not finite numbers") as caught:
            store.rows(read_sentences(corpus))
        assert str(caught.value).startswith(f"{broken.name}: ")
        assert np.isfinite(store.vectors()).all()
        assert len(store.vectors()) < len(SENTENCES)

    def test_a_place_that_cannot_be_written(self, encoder: Encoder, corpus: Path, tmp_path: Path) -> None:
        (tmp_path / "a-file").touch()
        store = VectorStore(encoder, folder=tmp_path / "a-file")
        with pytest.raises(InputError, match=r"vectors cannot be kept there \(Not a directory\)") as caught:
            store.rows(read_sentences(corpus))
        assert str(store.folder) in str(caught.value)

    def test_a_lock_that_cannot_be_had(self, encoder: Encoder, corpus: Path) -> None:
        store = VectorStore(encoder)
        (store.folder / "lock").mkdir(parents=True)
        with pytest.raises(InputError, match="vectors cannot be kept there"):
            store.rows(read_sentences(corpus))

    def test_an_empty_text(self, encoder: Encoder, tmp_path: Path) -> None:
        (tmp_path / "empty.txt").write_text("\n \n")
        with pytest.raises(InputError, match=r"empty\.txt: nothing in it could be used"):
            VectorStore(encoder).rows(read_sentences(tmp_path / "empty.txt"))

    def test_standard_input(self, encoder: Encoder) -> None:
        with pytest.raises(InputError, match="standard input can be read once only"):
            VectorStore(encoder).rows(read_sentences("-"))
