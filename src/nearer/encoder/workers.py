"""Encoding in several processes: each loads the model once, gets windows of sentences, writes its rows itself.

A worker is a plain Python process at the other end of a socket. It dies with its parent, and Ctrl-C reaches the parent
alone, which ends its workers. All write into one NumPy file that grows: rows as they come, their number when it is
known.
"""

from __future__ import annotations

import io
import os
import queue
import signal
import subprocess
import sys
import tempfile
import threading
import traceback
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from multiprocessing import Pipe
from multiprocessing.connection import Connection, wait
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple, Self

import numpy as np
import torch
from numpy.typing import DTypeLike, NDArray

from nearer.encoder.batching import OF_THIS_PROCESS, CutTexts
from nearer.encoder.encoding import BulkEncoding
from nearer.encoder.folder import save_parts
from nearer.encoder.network import at_inference
from nearer.errors import InputError, NearerError, SettingError, first_line
from nearer.storage.whole import sync_folder
from nearer.terminal import Advance

if TYPE_CHECKING:
    from nearer.encoder.parts import EncoderSettings


# Windows a worker has at a time: one computed, one tokenised, one whose vectors are on their way to the host.
WINDOWS_AT_A_TIME = 3
# What a worker runs. Not this file by `-m`: its classes would be those of __main__, which the parent knows nothing of
COMMAND = "import sys; from nearer.encoder.workers import serve; serve(int(sys.argv[1]))"


class Written(NamedTuple):
    """What a worker answers: the rows that it has just written, and the texts that it has counted so far."""

    rows: int
    counted: CutTexts


class WorkerError(NearerError, RuntimeError):
    """A process that could not do its part."""


@dataclass(frozen=True)
class Task:
    """What a worker must know before the first window."""

    model: Path
    settings: EncoderSettings
    remote_code: bool
    device: str
    threads: int
    file: GrowingFile
    options: dict[str, Any]  # of BulkEncoding


def encode_in_workers(
    bulk: BulkEncoding,
    devices: Sequence[str],
    windows: Iterable[Sequence[str]],
    file: GrowingFile,
    advance: Advance,
) -> None:
    """Write the vectors of all windows, in their order, to `file`, with one process for each of `devices`."""
    if os.name != "posix":
        raise SettingError("devices: several processes need Linux or macOS; encode in one.")
    encoder = bulk.encoder
    with tempfile.TemporaryDirectory(prefix="nearer-") as folder:
        save_parts(encoder, Path(folder) / "model", overwrite=False)
        task = Task(
            model=Path(folder) / "model",
            settings=encoder.settings,
            remote_code=type(encoder.backbone).__module__.startswith("transformers_modules."),
            device="",
            threads=max(1, torch.get_num_threads() // len(devices)),
            file=file.for_another_process(),
            options=bulk.options,
        )
        workers = [_Worker(n + 1, replace(task, device=device)) for n, device in enumerate(devices)]
        try:
            for worker in workers:
                worker.start()
            for worker in workers:
                worker.answer()  # the model is loaded
            _hand_out(workers, windows, file, advance)
            for counter in (encoder.cut_counter, OF_THIS_PROCESS):
                counter.add_counted(worker.counted for worker in workers)
        finally:
            for worker in workers:
                worker.end()


def _hand_out(
    workers: Sequence[_Worker], windows: Iterable[Sequence[str]], file: GrowingFile, advance: Advance
) -> None:
    """Each window to the worker with the fewest; no more windows are read than the workers can hold."""
    row = 0

    def wait_for_answers() -> None:
        busy = {worker.connection: worker for worker in workers if worker.windows}
        for connection in wait(list(busy)):
            advance(busy[connection].answer())  # type: ignore[index]

    for window in windows:
        while min(worker.windows for worker in workers) >= WINDOWS_AT_A_TIME:
            wait_for_answers()
        min(workers, key=lambda worker: worker.windows).send(row, window)
        row += len(window)
    for worker in workers:
        worker.send(row, [])
    while any(worker.windows for worker in workers):
        wait_for_answers()
    file.rows = row


class _Worker:
    """The parent's end of a worker."""

    def __init__(self, number: int, task: Task) -> None:
        self.number, self.task = number, task
        self.windows = 0
        self.counted = CutTexts(task.settings.max_length)
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        self.connection, theirs = Pipe()
        threads = str(self.task.threads)
        with theirs:
            self.process = subprocess.Popen(
                [sys.executable, "-c", COMMAND, str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                start_new_session=True,  # out of the terminal's reach: Ctrl-C is for the parent
                env={
                    **os.environ,
                    "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
                    "OMP_NUM_THREADS": threads,
                    "RAYON_NUM_THREADS": threads,
                },
            )
        self._send(self.task)

    def send(self, row: int, sentences: Sequence[str]) -> None:
        """Give it the sentences whose vectors begin at `row`; none at all is the end."""
        self._send((row, sentences))
        self.windows += bool(sentences)

    def answer(self) -> int:
        """How many sentences of its next window it has written; its failure is raised."""
        try:
            answer = self.connection.recv()
        except (EOFError, OSError):
            raise self._death() from None
        if isinstance(answer, Exception):
            raise answer
        self.windows = max(0, self.windows - 1)
        rows, self.counted = answer
        return int(rows)

    def end(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.connection.close()

    def _send(self, message: object) -> None:
        try:
            self.connection.send(message)
        except OSError:  # it is gone; why, it may have said before
            self.answer()
            raise self._death() from None

    def _death(self) -> WorkerError:
        assert self.process is not None
        code = self.process.wait()
        how = f"with code {code}" if code >= 0 else f"by {signal.Signals(-code).name}"
        if code == -signal.SIGKILL:
            how += ", as happens when memory runs out: fewer processes or smaller batch_tokens need less"
        return WorkerError(f"worker {self.number} ({self.task.device}) ended {how}.")


def serve(descriptor: int) -> None:
    """A worker's whole life. descriptor: of its end of the connection."""
    parent = Connection(descriptor)
    task: Task = parent.recv()
    windows: queue.SimpleQueue[tuple[int, list[str]]] = queue.SimpleQueue()
    threading.Thread(target=_receive, args=(parent, windows), daemon=True).start()
    try:
        from nearer.encoder.encoder import Encoder

        torch.set_num_threads(task.threads)
        encoder = Encoder.load(task.model, device=task.device, trust_remote_code=task.remote_code)
        encoder.settings = task.settings
        parent.send(Written(0, encoder.cut_texts))
        first_rows: queue.SimpleQueue[int] = queue.SimpleQueue()
        with task.file as file, at_inference(encoder):
            for vectors in BulkEncoding(encoder, **task.options).windows(_sentences(windows, first_rows)):
                file.write(first_rows.get(), vectors)
                parent.send(Written(len(vectors), encoder.cut_texts))
    except NearerError as error:
        parent.send(error)
    except Exception as error:
        traceback.print_exc()
        parent.send(WorkerError(f"a worker on {task.device} failed ({type(error).__name__}: {first_line(error)})."))
    threading.Event().wait()  # until the parent ends us: it has then read what was sent last


def _receive(parent: Connection, windows: queue.SimpleQueue[tuple[int, list[str]]]) -> None:
    """In a thread: the parent then never waits for a worker that computes, nor a worker for a parent that is gone."""
    try:
        while True:
            windows.put(parent.recv())
    except (EOFError, OSError):
        os._exit(1)


def _sentences(windows: queue.SimpleQueue[tuple[int, list[str]]], first_rows: queue.SimpleQueue[int]) -> Iterator[Any]:
    while True:
        row, sentences = windows.get()
        if not sentences:
            return
        first_rows.put(row)
        yield sentences


class GrowingFile:
    """Rows go into `partial`, which `finish` makes the file `path`. Left before that, it goes away again.

    row: the shape of one row. shared: a file that another process has made and will finish.
    """

    def __init__(
        self, path: Path, partial: Path, dtype: DTypeLike, row: tuple[int, ...], *, shared: bool = False
    ) -> None:
        self.path, self.partial = path, partial
        self.dtype = np.dtype(dtype)
        self.row = row
        self.rows = 0
        self._shared = shared
        self._start = len(_header(0, row, self.dtype))
        self._file: BinaryIO | None = None

    def __enter__(self) -> Self:
        try:
            self._file = open(self.partial, "r+b" if self._shared else "wb")
        except OSError as error:
            raise self._unwritable(error) from None
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._file is None:
            return
        try:
            self._file.close()
        except OSError as problem:
            if kind is None:
                raise self._unwritable(problem) from None
        finally:
            if not self._shared:
                self.partial.unlink(missing_ok=True)

    def for_another_process(self) -> GrowingFile:
        """The same file for a process that writes some of its rows."""
        return GrowingFile(self.path.absolute(), self.partial.absolute(), self.dtype, self.row, shared=True)

    def append(self, rows: NDArray[Any]) -> None:
        self.write(self.rows, rows)

    def write(self, row: int, rows: NDArray[Any]) -> None:
        """Write `rows` as those from `row` on."""
        assert self._file is not None
        try:
            self._file.seek(self._start + row * self.dtype.itemsize * int(np.prod(self.row, dtype=np.int64)))
            self._file.write(np.ascontiguousarray(rows, dtype=self.dtype).data)
            self._file.flush()
        except OSError as error:
            raise self._unwritable(error) from None
        self.rows = max(self.rows, row + len(rows))

    def finish(self, rows: int) -> None:
        """Say how many rows there are, and give the file its name."""
        assert self._file is not None
        try:
            self._file.seek(0)
            self._file.write(_header(rows, self.row, self.dtype))
            self._file.flush()
            os.fsync(self._file.fileno())
            self._file.close()
            self.partial.replace(self.path)
            sync_folder(self.path.parent)
        except OSError as error:
            raise self._unwritable(error) from None

    def _unwritable(self, error: OSError) -> InputError:
        return InputError(f"{self.path}: cannot be written ({error.strerror}).")


def _header(rows: int, row: tuple[int, ...], dtype: np.dtype[Any]) -> bytes:
    """The beginning of a NumPy file. NumPy leaves room in it, so that it is as long for any number of rows."""
    described = {"descr": np.lib.format.dtype_to_descr(dtype), "fortran_order": False, "shape": (rows, *row)}
    buffer = io.BytesIO()
    np.lib.format.write_array_header_1_0(buffer, described)
    return buffer.getvalue()
