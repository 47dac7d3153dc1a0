"""Encoding a file: a window at a time, in this process or in several, whole or not at all."""

from __future__ import annotations

import copy
import json
import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from nearer.encoder import Encoder
from nearer.encoder.batching import OF_THIS_PROCESS, CutCounter, CutTexts
from nearer.encoder.encoding import BulkEncoding
from nearer.encoder.files import encode_file
from nearer.encoder.workers import GrowingFile, WorkerError, encode_in_workers
from nearer.errors import InputError, SettingError
from nearer.text import read_sentences

WORDS = ["rain", "the fox", "A man is eating lunch.", "again and again until the evening comes", "Why measure?"]


@pytest.fixture(scope="module")
def encoder(tiny_model: Callable[[str], Path]) -> Encoder:
    return Encoder.load(tiny_model("bert"), pooling="mean", device="cpu")


@pytest.fixture
def lines() -> list[str]:
    draw = np.random.default_rng(0)
    return [" ".join(draw.choice(WORDS, size=draw.integers(1, 6))) for _ in range(100)]


@pytest.fixture
def text(lines: list[str], tmp_path: Path) -> Path:
    path = tmp_path / "text.txt"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


@pytest.mark.parametrize("window", [1, 7, 100, 1000])
def test_windows_change_nothing(window: int, encoder: Encoder, lines: list[str], text: Path, tmp_path: Path) -> None:
    written = encode_file(encoder, read_sentences(text), tmp_path / "v.npy", window=window)
    assert (written.rows, written.dimension, written.lines) == (100, 32, None)
    np.testing.assert_allclose(np.load(tmp_path / "v.npy"), encoder.encode(lines), atol=1e-6)
    assert {path.name for path in tmp_path.iterdir()} == {"text.txt", "v.npy", "v.json"}


def test_the_vectors_are_mapped(encoder: Encoder, text: Path, tmp_path: Path) -> None:
    vectors = encode_file(encoder, read_sentences(text), tmp_path / "v.npy").open()
    assert isinstance(vectors, np.memmap)
    assert vectors.shape == (100, 32)


def test_equal_sentences_of_a_window_pass_once(
    encoder: Encoder, text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text.write_text("rain\nrain\nfox\nrain\n", encoding="utf-8")
    passed = []
    forward = encoder.forward
    monkeypatch.setattr(encoder, "forward", lambda ids, *rest: passed.append(len(ids)) or forward(ids, *rest))
    vectors = encode_file(encoder, read_sentences(text), tmp_path / "v.npy", window=3).open()
    assert sum(passed) == 3
    np.testing.assert_allclose(vectors[0], vectors[3], atol=1e-6)


@pytest.mark.parametrize("window", [2, 100])
def test_lines_of_rows_where_some_were_dropped(window: int, encoder: Encoder, text: Path, tmp_path: Path) -> None:
    text.write_text("rain\n\nfox\n \n\nrain\nlunch\n", encoding="utf-8")
    written = encode_file(encoder, read_sentences(text), tmp_path / "v.npy", window=window)
    assert written.lines is not None
    assert np.load(written.lines).tolist() == [1, 3, 6, 7]
    np.testing.assert_allclose(written.open(), encoder.encode(["rain", "fox", "rain", "lunch"]), atol=1e-6)


def test_half_the_size(encoder: Encoder, lines: list[str], text: Path, tmp_path: Path) -> None:
    vectors = encode_file(encoder, read_sentences(text), tmp_path / "v.npy", dtype="float16").open()
    assert vectors.dtype == np.float16
    np.testing.assert_allclose(vectors, encoder.encode(lines), atol=2e-3)
    facts = json.loads((tmp_path / "v.json").read_text(encoding="utf-8"))
    assert (facts["dtype"], facts["precision"], facts["rows"]) == ("float16", "float32", 100)


def test_options_reach_the_encoder(encoder: Encoder, lines: list[str], text: Path, tmp_path: Path) -> None:
    options = {"precision": "bf16", "normalize": True, "batch_size": 3}
    written = encode_file(encoder, read_sentences(text), tmp_path / "v.npy", **options)
    np.testing.assert_allclose(written.open(), encoder.encode(lines, normalize=True), atol=0.01)
    assert np.abs(written.open() - encoder.encode(lines, normalize=True)).max() > 1e-5
    facts = json.loads(written.facts.read_text(encoding="utf-8"))
    assert (facts["precision"], facts["normalized"]) == ("bf16", True)


def test_a_source_that_fails_leaves_what_was_there(
    encoder: Encoder, text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reading = read_sentences(text)

    def located() -> Iterator[tuple[int, str]]:
        yield from ((line, "rain") for line in range(20))
        raise InputError("text.txt: cannot be read any further.")

    monkeypatch.setattr(reading, "located", located)
    (tmp_path / "v.npy").write_bytes(b"of another text")
    with pytest.raises(InputError, match="any further"):
        encode_file(encoder, reading, tmp_path / "v.npy", window=5, overwrite=True)
    assert (tmp_path / "v.npy").read_bytes() == b"of another text"
    assert {path.name for path in tmp_path.iterdir()} == {"text.txt", "v.npy"}


def test_an_interruption_leaves_nothing(
    encoder: Encoder, text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    passed = 0
    forward = encoder.forward

    def interrupted(*inputs: object) -> object:
        nonlocal passed
        passed += 1
        if passed == 5:
            raise KeyboardInterrupt
        return forward(*inputs)

    monkeypatch.setattr(encoder, "forward", interrupted)
    with pytest.raises(KeyboardInterrupt):
        encode_file(encoder, read_sentences(text), tmp_path / "v.npy", window=10)
    assert [path.name for path in tmp_path.iterdir()] == ["text.txt"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"dtype": "float64"}, "dtype: 'float64' is not one of float32, float16"),
        ({"window": 0}, "window: 0 is below 1"),
        ({"batch_tokens": 0}, "batch_tokens: 0 is below 1"),
        ({"devices": []}, "devices: none named"),
        ({"precision": "fp4"}, "precision: 'fp4'"),
    ],
)
def test_wrong_options_are_named(options: dict, message: str, encoder: Encoder, text: Path, tmp_path: Path) -> None:
    with pytest.raises(SettingError, match=message):
        encode_file(encoder, read_sentences(text), tmp_path / "v.npy", **options)
    assert [path.name for path in tmp_path.iterdir()] == ["text.txt"]


class TestWorkers:
    @pytest.fixture
    def started(self, monkeypatch: pytest.MonkeyPatch) -> list[subprocess.Popen]:
        """The workers that a test starts."""
        processes: list[subprocess.Popen] = []

        class Noted(subprocess.Popen):
            def __init__(self, *arguments: object, **options: object) -> None:
                super().__init__(*arguments, **options)
                processes.append(self)

        monkeypatch.setattr("nearer.encoder.workers.subprocess.Popen", Noted)
        return processes

    def test_the_vectors_are_those_of_one_process(
        self, encoder: Encoder, lines: list[str], text: Path, tmp_path: Path, started: list[subprocess.Popen]
    ) -> None:
        text.write_text("\n\n".join(lines), encoding="utf-8")
        written = encode_file(
            encoder, read_sentences(text), tmp_path / "v.npy", devices=["cpu", "cpu"], window=9, normalize=True
        )
        np.testing.assert_allclose(written.open(), encoder.encode(lines, normalize=True), atol=1e-6)
        assert np.load(tmp_path / "v.lines.npy").tolist() == list(range(1, 200, 2))
        assert [process.poll() is None for process in started] == [False, False]
        assert {path.name for path in tmp_path.iterdir()} == {"text.txt", "v.npy", "v.json", "v.lines.npy"}

    def test_cut_texts_are_counted_as_in_one_process(self, encoder: Encoder, text: Path, tmp_path: Path) -> None:
        text.write_text("".join(f"{'the dog ' * length}\n" for length in (1, 100, 2, 200, 3, 300, 100)))
        alone, workers = copy.deepcopy(encoder), copy.deepcopy(encoder)
        for one in (alone, workers):
            one.cut_counter = CutCounter()
        OF_THIS_PROCESS.take()
        encode_file(alone, read_sentences(text), tmp_path / "alone.npy", window=2)
        here = OF_THIS_PROCESS.take()
        encode_file(workers, read_sentences(text), tmp_path / "v.npy", devices=["cpu", "cpu"], window=2)
        assert workers.cut_texts == alone.cut_texts == CutTexts(encoder.settings.max_length, texts=7, cut=4)
        assert OF_THIS_PROCESS.take() == here == [alone.cut_texts]  # which the command line tells of

    def test_one_that_dies_is_told_of(
        self,
        encoder: Encoder,
        text: Path,
        tmp_path: Path,
        started: list[subprocess.Popen],
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        reading = read_sentences(text)
        located = reading.located

        def deadly() -> Iterator[tuple[int, str]]:
            for line, sentence in located():
                if line == 50:
                    os.kill(started[0].pid, signal.SIGKILL)
                yield line, sentence

        monkeypatch.setattr(reading, "located", deadly)
        with pytest.raises(WorkerError, match=r"worker 1 \(cpu\) ended by SIGKILL, as happens when memory runs out"):
            encode_file(encoder, reading, tmp_path / "v.npy", devices=["cpu"], window=5)
        assert all(process.poll() is not None for process in started)
        assert [path.name for path in tmp_path.iterdir()] == ["text.txt"]

    def test_a_defect_in_it_is_told_of(self, encoder: Encoder, tmp_path: Path) -> None:
        bulk = BulkEncoding(encoder, normalize=True, precision="float32", prompt="")
        bulk.options["nonsense"] = 1
        with (
            GrowingFile(tmp_path / "v.npy", tmp_path / "v.partial", "float32", (encoder.dimension,)) as file,
            pytest.raises(WorkerError, match=r"a worker on cpu failed \(TypeError: .*nonsense"),
        ):
            encode_in_workers(bulk, ["cpu"], [["rain"]], file, lambda amount=1: None)

    def test_its_error_is_raised_here(self, encoder: Encoder, text: Path, tmp_path: Path) -> None:
        with pytest.raises(SettingError, match="device: 'abacus' cannot be used here"):
            encode_file(encoder, read_sentences(text), tmp_path / "v.npy", devices=["abacus"])
        assert [path.name for path in tmp_path.iterdir()] == ["text.txt"]
