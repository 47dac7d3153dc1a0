"""Stored vectors under misfortune: interruptions, kills, torn, damaged and lost files, a full disk."""

from __future__ import annotations

import errno
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from teacher_text import OTHERS, SENTENCES, WINDOW, Watch, write_lines

from faulty_disk import flip
from nearer.encoder import Encoder
from nearer.encoder.comparing import Vectors
from nearer.errors import InputError
from nearer.storage.sealed import sealed_bytes, unsealed_bytes
from nearer.teachers import VectorStore
from nearer.text import read_sentences
from patience import HANG

Check = Callable[[VectorStore, Path], None]
pytestmark = pytest.mark.usefixtures("small_windows")


class TestInterruption:
    @pytest.mark.parametrize("stop_after", [0, 8, 16, 24, 32])
    def test_it_goes_on_where_it_was(
        self, stop_after: int, encoder: Encoder, corpus: Path, watch: Watch, check_vectors: Check
    ) -> None:
        watch.stop_after = stop_after
        store = VectorStore(encoder)
        with pytest.raises(KeyboardInterrupt):
            store.rows(read_sentences(corpus))
        kept = len(store.vectors())
        # a window is written when the next one has passed the model
        assert kept == max(0, watch.since() - WINDOW)
        watch.stop_after = None
        VectorStore(encoder).rows(read_sentences(corpus))
        assert watch.since() == len(SENTENCES) - kept
        check_vectors(store, corpus)
        assert len(store.vectors()) == len(SENTENCES)

    def test_again_and_again(self, encoder: Encoder, corpus: Path, watch: Watch, check_vectors: Check) -> None:
        watch.stop_after = 2 * WINDOW
        for time in range(1, 4):
            with pytest.raises(KeyboardInterrupt):
                VectorStore(encoder).rows(read_sentences(corpus))
            watch.since()
            assert len(VectorStore(encoder).vectors()) == time * WINDOW
        watch.stop_after = None
        check_vectors(VectorStore(encoder), corpus)

    def test_another_corpus_comes_between(
        self, encoder: Encoder, corpus: Path, watch: Watch, tmp_path: Path, check_vectors: Check
    ) -> None:
        watch.stop_after = 3 * WINDOW
        with pytest.raises(KeyboardInterrupt):
            VectorStore(encoder).rows(read_sentences(corpus))
        watch.stop_after = None
        other = write_lines(tmp_path / "other.txt", [*OTHERS[:20], *SENTENCES[-3:]])
        for path in (other, corpus, other):
            check_vectors(VectorStore(encoder), path)
        assert len(VectorStore(encoder).vectors()) == 60

    @pytest.mark.parametrize("name", ["vectors.bin", "keys.bin"])
    def test_the_disk_is_full(
        self, name: str, encoder: Encoder, corpus: Path, monkeypatch: pytest.MonkeyPatch, check_vectors: Check
    ) -> None:
        def full(file: int) -> None:
            if Path(f"/proc/self/fd/{file}").resolve().name == name:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        store = VectorStore(encoder)
        with monkeypatch.context() as patch:
            patch.setattr(os, "fsync", full)
            with pytest.raises(InputError, match=r"No space left on device") as caught:
                store.rows(read_sentences(corpus))
        assert str(store.folder) in str(caught.value)
        check_vectors(store, corpus)


class TestDamage:
    @pytest.fixture(scope="class")
    def texts(self, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
        folder = tmp_path_factory.mktemp("texts")
        return write_lines(folder / "one.txt", SENTENCES[:12]), write_lines(folder / "two.txt", OTHERS[:14])

    @pytest.fixture(scope="class")
    def whole(self, encoder: Encoder, texts: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
        """A store of the first text, to be copied."""
        folder = tmp_path_factory.mktemp("whole")
        VectorStore(encoder, folder=folder).rows(read_sentences(texts[0]))
        return folder

    @pytest.fixture(scope="class")
    def wanted(self, encoder: Encoder) -> dict[str, Vectors]:
        known = [*SENTENCES, *OTHERS]
        return dict(zip(known, encoder.encode(known, normalize=True), strict=True))

    @given(
        vector_bytes=st.integers(0, 12 * 64),
        key_bytes=st.integers(0, 12 * 16),
        other_first=st.booleans(),
    )
    @settings(
        max_examples=40,
        deadline=None,
        suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    )
    def test_torn_files_are_mended(
        self,
        vector_bytes: int,
        key_bytes: int,
        other_first: bool,
        encoder: Encoder,
        whole: Path,
        texts: tuple[Path, Path],
        wanted: dict[str, Vectors],
        watch: Watch,
        tmp_path_factory: pytest.TempPathFactory,
    ) -> None:
        folder = tmp_path_factory.mktemp("torn") / "stores"
        shutil.copytree(whole, folder)
        store = VectorStore(encoder, folder=folder)
        os.truncate(store.folder / "vectors.bin", vector_bytes)
        os.truncate(store.folder / "keys.bin", key_bytes)
        left = min(vector_bytes // 64, key_bytes // 16)
        left = left if left == 12 else 0  # rows are checked, and lost, by pieces, and these are one
        assert len(store.vectors()) == left
        watch.since()
        for path in texts[::-1] if other_first else texts:
            rows = store.rows(read_sentences(path))
            found = store.vectors()[rows].astype(np.float32)
            np.testing.assert_allclose(found, [wanted[line] for line in path.read_text().splitlines()], atol=4e-4)
        assert watch.since() == 12 - left + 14
        assert (store.folder / "vectors.bin").stat().st_size == 26 * 64
        assert (store.folder / "keys.bin").stat().st_size == 26 * 16

    @pytest.mark.parametrize("name", ["vectors.bin", "keys.bin"])
    def test_a_lost_file_is_made_anew(
        self, name: str, encoder: Encoder, corpus: Path, watch: Watch, check_vectors: Check
    ) -> None:
        store = VectorStore(encoder)
        store.rows(read_sentences(corpus))
        (store.folder / name).unlink()
        watch.since()
        store.rows(read_sentences(corpus))
        assert watch.since() == len(SENTENCES)
        check_vectors(store, corpus)

    @pytest.mark.parametrize(
        "spoil",
        [
            lambda path: os.truncate(path, 0),
            lambda path: os.truncate(path, 100),
            lambda path: os.truncate(path, path.stat().st_size - 8),
            lambda path: path.write_bytes(b"anything else"),
            lambda path: flip(path, 0),
            lambda path: path.write_bytes(sealed_bytes((np.frombuffer(path.read_bytes()[:-8], "<i8") - 1).tobytes())),
            lambda path: path.write_bytes(sealed_bytes((np.frombuffer(path.read_bytes()[:-8], "<i8") + 1).tobytes())),
            lambda path: path.write_bytes(sealed_bytes(b"abc")),
            lambda path: path.write_bytes(sealed_bytes(b"")),
            lambda path: path.unlink(),
        ],
    )
    def test_damaged_rows_are_found_again_without_the_model(
        self, spoil: Callable[[Path], object], encoder: Encoder, corpus: Path, watch: Watch
    ) -> None:
        store = VectorStore(encoder)
        first = store.rows(read_sentences(corpus))
        [path] = (store.folder / "rows").iterdir()
        spoil(path)
        watch.since()
        again = store.rows(read_sentences(corpus))
        assert (again.dtype, again.tolist()) == (np.int64, first.tolist())
        assert unsealed_bytes(path.read_bytes()) == first.tobytes()
        assert watch.since() == 0

    def test_what_a_killed_writer_left_among_the_rows_is_removed(self, encoder: Encoder, corpus: Path) -> None:
        store = VectorStore(encoder)
        (store.folder / "rows").mkdir(parents=True)
        (store.folder / "rows" / ".half.npy").write_bytes(b"\x93NUMPY")
        store.rows(read_sentences(corpus))
        [known] = (store.folder / "rows").iterdir()
        known.rename(known.with_name(".unnamed.npy"))
        store.rows(read_sentences(corpus))
        assert len(list((store.folder / "rows").iterdir())) == 1


EMBED = """
import json, multiprocessing, os, signal, sys
from nearer.encoder import Encoder
from nearer.teachers import VectorStore, vector_store
from nearer.text import read_sentences
vector_store.WINDOW_ON_CPU = 2
forward, passed = Encoder.forward, []
def counted(self, ids, *masks):
    passed.append(len(ids))
    if how == "die" and len(passed) == 6:
        os.kill(os.getpid(), signal.SIGKILL)
    return forward(self, ids, *masks)
Encoder.forward = counted
corpus, model, folder = sys.argv[1:]
store = VectorStore(Encoder.load(model, pooling="mean", device="cpu"), folder=folder)
fork = multiprocessing.get_context("fork")
together, answers = fork.Barrier(2), fork.Queue()
def embed(what):
    global how
    how = what
    if how == "live":
        together.wait()
    rows = store.rows(read_sentences(corpus))
    answers.put((sum(passed), rows.tolist()))
killed = fork.Process(target=embed, args=["die"])
killed.start()
killed.join()
kept = len(store.vectors())
both = [fork.Process(target=embed, args=["live"]) for _ in range(2)]
for process in both:
    process.start()
found = [answers.get() for _ in both]
for process in both:
    process.join()
print(json.dumps([killed.exitcode, kept, *found]))
"""


def test_one_process_is_killed_and_two_go_on_at_once(
    encoder: Encoder, corpus: Path, tiny_model: Callable[[str], Path], tmp_path: Path, check_vectors: Check
) -> None:
    arguments = [corpus, tiny_model("bert"), tmp_path / "stores"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}
    done = subprocess.run(
        [sys.executable, "-c", EMBED, *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=HANG,
        env=environment,
    )
    assert done.returncode == 0, done.stderr
    code, kept, (passed, rows), (passed_too, same_rows) = json.loads(done.stdout)
    assert code == -signal.SIGKILL
    assert 0 < kept < len(SENTENCES)
    assert passed + passed_too == len(SENTENCES) - kept
    assert rows == same_rows
    store = VectorStore(encoder, folder=tmp_path / "stores")
    assert list((tmp_path / "stores").iterdir()) == [store.folder]
    check_vectors(store, corpus)
