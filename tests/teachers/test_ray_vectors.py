"""Vectors by workers of Ray: the same files as in one process, to the bit, and nothing lost when it stops half-way."""

from __future__ import annotations

import copy
import sys
import threading
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from teacher_text import OTHERS, SENTENCES, WINDOW, Watch, write_lines

from nearer.encoder import Encoder
from nearer.encoder.batching import OF_THIS_PROCESS, CutCounter, CutTexts
from nearer.errors import InputError, MissingExtraError, SettingError
from nearer.ray_runtime import RayError
from nearer.storage.pieces import PieceWriter
from nearer.teachers import VectorStore
from nearer.teachers.missing_sentences import MissingSentences, sentence_keys
from nearer.teachers.ray_vectors import EncodingWorker, OverRay
from nearer.text import read_sentences

pyarrow = pytest.importorskip("pyarrow")
pytestmark = pytest.mark.usefixtures("small_windows")
OPTIONS = {"normalize": True, "precision": "float32", "prompt": ""}
Check = Callable[[VectorStore, Path], None]


def files(store: VectorStore) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(store.folder.rglob("*")) if path.is_file()}


def read_in_windows(path: Path, marked: np.ndarray[Any, Any], size: int) -> list[list[str]]:
    pytest.importorskip("ray")
    from nearer.teachers.ray_source import WindowSource

    reading = read_sentences(path)
    missing = MissingSentences(reading, sentence_keys(reading), marked)
    [task] = WindowSource(missing, size).get_read_tasks(7)
    return [window for table in task() for window in table.column("sentences").to_pylist()]


@pytest.fixture
def worker(encoder: Encoder, monkeypatch: pytest.MonkeyPatch) -> EncodingWorker:
    """In this process, given its encoder without Ray."""
    found = EncodingWorker(None, "cpu", OPTIONS)
    monkeypatch.setattr(EncodingWorker, "_loaded", lambda self: loaded(encoder))
    return found


def loaded(encoder: Encoder) -> Any:
    from nearer.encoder.encoding import BulkEncoding

    return BulkEncoding(encoder.eval(), **OPTIONS)


def uncounted(encoder: Encoder) -> Encoder:
    """A copy that has encoded nothing yet."""
    copied = copy.deepcopy(encoder)
    copied.cut_counter = CutCounter()
    return copied


class Given:
    """What Ray gives back of workers' rows."""

    def __init__(self, rows: list[dict[str, Any]]) -> None:
        self.rows = rows

    def iter_batches(self, **_: Any) -> Iterator[Any]:
        return (pyarrow.table({name: [value] for name, value in row.items()}) for row in self.rows)


class TestParts:
    """Of what Ray puts together, without it."""

    def test_windows_are_the_marked_sentences(self, corpus: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        marked = np.zeros(45, dtype=bool)
        marked[[0, 3, 4, 11, 44]] = True
        monkeypatch.chdir(corpus.parent)
        lines = [*SENTENCES, *SENTENCES[:5]]
        wanted = [lines[place] for place in (0, 3, 4, 11, 44)]
        assert read_in_windows(Path(corpus.name), marked, 2) == [wanted[:2], wanted[2:4], wanted[4:]]

    def test_a_relative_path_is_read_from_any_folder(
        self, corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        pytest.importorskip("ray")
        from nearer.teachers.ray_source import WindowSource

        monkeypatch.chdir(corpus.parent)
        reading = read_sentences(corpus.name)
        missing = MissingSentences(reading, sentence_keys(reading), np.ones(45, dtype=bool))
        [task] = WindowSource(missing, 100).get_read_tasks(1)
        (tmp_path / "elsewhere").mkdir()
        monkeypatch.chdir(tmp_path / "elsewhere")
        [table] = task()
        assert table.column("sentences").to_pylist() == [[*SENTENCES, *SENTENCES[:5]]]

    def test_a_text_that_became_shorter_ends_early(self, corpus: Path) -> None:
        pytest.importorskip("ray")
        assert read_in_windows(corpus, np.ones(60, dtype=bool), 44)[-1] == [SENTENCES[4]]

    def test_a_worker_gives_vectors_with_the_keys_of_their_sentences(
        self, worker: EncodingWorker, encoder: Encoder
    ) -> None:
        window = [*SENTENCES[:6], "naïve 東京", SENTENCES[0]]
        found = worker(pyarrow.table({"sentences": [window]}))
        [row] = found.to_pylist()
        assert row["keys"] == sentence_keys(window).tobytes()
        vectors = np.frombuffer(row["vectors"], dtype=np.float16).reshape(-1, encoder.dimension)
        np.testing.assert_allclose(vectors, encoder.encode(window, normalize=True), atol=4e-4)

    def test_threads_of_a_worker_do_not_mix_their_windows(self, worker: EncodingWorker, encoder: Encoder) -> None:
        windows = [[*SENTENCES[start : start + 5]] for start in range(0, 40, 5)]
        found: dict[int, Any] = {}

        def ask(place: int) -> None:
            found[place] = worker.vectors(windows[place])

        threads = [threading.Thread(target=ask, args=[place]) for place in range(len(windows))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for place, window in enumerate(windows):
            np.testing.assert_allclose(found[place], encoder.encode(window, normalize=True), atol=1e-5)

    def test_what_workers_cut_is_counted_here(
        self, encoder: Encoder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """By two workers in this process, one of which answers in another order than it was asked."""
        pytest.importorskip("ray")
        long = ["the dog " * length for length in (100, 200, 300)]
        corpus = write_lines(tmp_path / "corpus.txt", [*SENTENCES[:5], *long])
        workers = [EncodingWorker(None, "cpu", OPTIONS) for _ in range(2)]
        encoders = {worker: uncounted(encoder) for worker in workers}
        monkeypatch.setattr(EncodingWorker, "_loaded", lambda self: loaded(encoders[self]))
        reading = read_sentences(corpus)
        missing = MissingSentences(reading, sentence_keys(reading), np.ones(8, dtype=bool))
        texts = list(missing)
        tables = [pyarrow.table({"sentences": [texts[start : start + 2]]}) for start in range(0, 8, 2)]
        rows = [workers[number % 2](table).to_pylist()[0] for number, table in enumerate(tables)]
        for name in ("texts", "cut"):
            rows[0][name], rows[2][name] = rows[2][name], rows[0][name]
        there = uncounted(encoder)
        workforce = OverRay(there)
        monkeypatch.setattr(workforce, "_encoded", lambda *_: Given(rows))
        OF_THIS_PROCESS.take()
        assert sum(len(vectors) for vectors in workforce.windows(missing, 2, OPTIONS, lambda count: None)) == 8
        assert there.cut_texts == CutTexts(encoder.settings.max_length, texts=8, cut=3)
        assert OF_THIS_PROCESS.take() == [there.cut_texts]

    def test_fewer_than_one_worker(self, encoder: Encoder) -> None:
        with pytest.raises(SettingError, match="workers: 0 is below 1"):
            OverRay(encoder, workers=0)

    def test_ray_is_an_extra(self, encoder: Encoder, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(sys.modules, "ray", None)
        monkeypatch.setitem(sys.modules, "ray.data", None)
        with pytest.raises(MissingExtraError, match=r"pip install .*\[ray\]'"):
            OverRay(encoder)


class InOrder:
    """A workforce without Ray: what the store does with any."""

    device = torch.device("cpu")

    def __init__(self, encoder: Encoder, stop_after: int | None = None) -> None:
        self.encoder, self.stop_after = encoder, stop_after
        self.sizes: list[int] = []

    def windows(self, missing: MissingSentences, size: int, options: dict[str, Any], advance: Any) -> Any:
        texts = list(missing)
        for start in range(0, len(texts), size):
            if self.stop_after == len(self.sizes):
                raise KeyboardInterrupt
            window = texts[start : start + size]
            self.sizes.append(len(window))
            advance(len(window))
            yield loaded(self.encoder).vectors(loaded(self.encoder).tokenise(window)).numpy()


def test_a_store_keeps_what_a_workforce_gives(
    encoder: Encoder, corpus: Path, tmp_path: Path, watch: Watch, check_vectors: Check
) -> None:
    stopped = InOrder(encoder, stop_after=2)
    store = VectorStore(encoder, workforce=stopped)
    with pytest.raises(KeyboardInterrupt):
        store.rows(read_sentences(corpus))
    assert len(store.vectors()) == 2 * WINDOW
    going_on = InOrder(encoder)
    VectorStore(encoder, workforce=going_on).rows(read_sentences(corpus))
    assert stopped.sizes + going_on.sizes == [WINDOW] * 5
    alone = VectorStore(encoder, folder=tmp_path / "alone")
    alone.rows(read_sentences(corpus))
    assert files(store) == files(alone)
    check_vectors(store, corpus)


@pytest.mark.slow
@pytest.mark.usefixtures("ray_on_two_cores", "one_thread")
class TestRay:
    """One Ray for all: it takes seconds to start."""

    def test_the_same_files_as_in_one_process_although_interrupted(
        self, encoder: Encoder, corpus: Path, tmp_path: Path, watch: Watch, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        alone = VectorStore(encoder, folder=tmp_path / "alone")
        rows = alone.rows(read_sentences(corpus))
        counted = encoder.cut_texts.texts
        watch.since()
        with OverRay(encoder, workers=2, gpus=0.0) as workforce:
            store = VectorStore(encoder, folder=tmp_path / "ray", workforce=workforce)
            with monkeypatch.context() as patch:
                append, windows = PieceWriter.append, count(1)

                def stop_at_the_third(writer: PieceWriter, *given: Any) -> None:
                    if next(windows) == 3:
                        raise KeyboardInterrupt
                    append(writer, *given)

                patch.setattr(PieceWriter, "append", stop_at_the_third)
                with pytest.raises(KeyboardInterrupt):
                    store.rows(read_sentences(corpus))
            kept = len(store.vectors())
            assert kept == 2 * WINDOW
            assert store.rows(read_sentences(corpus)).tolist() == rows.tolist()
            assert encoder.cut_texts.texts - counted >= len(alone.vectors())  # more, if windows were lost
        assert watch.since() == 0  # nothing passed the model here
        assert files(store) == files(alone)

    def test_a_text_that_changes_is_told(
        self, encoder: Encoder, corpus: Path, monkeypatch: pytest.MonkeyPatch, check_vectors: Check
    ) -> None:
        from nearer.teachers import vector_store

        original, content = vector_store._first_occurrences, corpus.read_text()

        def and_then_it_changes(*arguments: Any) -> Any:
            write_lines(corpus, [*SENTENCES[:12], OTHERS[0], *SENTENCES[13:]])
            return original(*arguments)

        with monkeypatch.context() as patch, OverRay(encoder, workers=1, gpus=0.0) as workforce:
            patch.setattr(vector_store, "_first_occurrences", and_then_it_changes)
            store = VectorStore(encoder, workforce=workforce)
            with pytest.raises(InputError, match="changed while it was read"):
                store.rows(read_sentences(corpus))
        assert len(store.vectors()) == WINDOW  # the window before the changed one
        corpus.write_text(content)
        check_vectors(VectorStore(encoder), corpus)

    @pytest.mark.parametrize(
        ("wrong", "kind", "message"),
        [
            ({"batch_tokens": 0}, SettingError, r"\Abatch_tokens: 0 is below 1\.\Z"),
            ({"unknown": 0}, RayError, r"\Aa Ray worker failed \(TypeError: .*'unknown'\)\.\Z"),
        ],
    )
    def test_errors_of_workers_are_one_line(
        self, wrong: dict[str, Any], kind: type[Exception], message: str, encoder: Encoder, corpus: Path
    ) -> None:
        reading = read_sentences(corpus)
        missing = MissingSentences(reading, sentence_keys(reading), np.ones(45, dtype=bool))
        with OverRay(encoder, workers=1, gpus=0.0) as workforce, pytest.raises(kind, match=message):
            list(workforce.windows(missing, WINDOW, {**OPTIONS, **wrong}, lambda amount=1: None))

    def test_more_workers_than_there_is_room_for(self, encoder: Encoder) -> None:
        with pytest.raises(SettingError, match="workers: 3 asked for, Ray has 2 processors here"):
            OverRay(encoder, workers=3, gpus=0.0).__enter__()
