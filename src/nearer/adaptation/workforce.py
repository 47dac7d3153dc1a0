"""Who encodes texts and scores pairs: this process, or workers of Ray that each hold the model.

Both cut the work into the same windows, and a window is computed in one piece: so the numbers are the same, to the last
bit on processors of one kind with as many threads. Windows come back in order. Neither all texts nor all vectors are
ever under way: workers wait while this process is behind.
"""

from __future__ import annotations

import copy
from collections import deque
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from typing import Any, Literal, Protocol, Self, get_args

import numpy as np
import torch
from numpy.typing import NDArray

from nearer.adaptation.models import Models
from nearer.encoder import Encoder
from nearer.encoder.batching import OF_THIS_PROCESS, CutTexts, Tokenised
from nearer.encoder.encoding import BulkEncoding, check_sentences
from nearer.encoder.network import at_inference
from nearer.errors import SettingError
from nearer.extras import require
from nearer.ray_runtime import OBJECT_STORE, RayWorkforce, translate_worker_errors
from nearer.teachers import CrossEncoder
from nearer.teachers.ray_vectors import EncodingWorker, counted_here, note_counts
from nearer.teachers.teacher import teacher_precision
from nearer.terminal import progress_bar

EngineName = Literal["process", "ray"]
Pairs = NDArray[np.int64]
Scores = NDArray[np.float32]
Call = tuple[str, tuple[Any, ...]]  # a method of a worker, and what it is given

# Of a window, on a CPU and on a GPU: what an interruption costs, and what a worker is given at a time
TEXTS_ON_CPU, TEXTS_ON_GPU = 512, 8192
PAIRS_ON_CPU, PAIRS_ON_GPU = 512, 8192
FEWEST_FOR_WORKERS = 256  # texts or pairs: fewer are done here in less time than they take on their way
CALLS_AT_A_TIME = 2  # of a worker: while it computes one, it reads the other
WAITING = 4  # times the workers, results that came before their turn
PURPOSE = "adapting with --engine ray"


class Workforce(Protocol):
    @property
    def speedup(self) -> float:
        """How many times as fast as this process it should be."""

    def precision(self, encoder: Encoder) -> str:
        """What its vectors are computed in."""

    def encode(
        self, encoder: Encoder, texts: Sequence[str], *, start: int = 0, progress: bool = False
    ) -> Generator[NDArray[np.floating]]:
        """Vectors of length 1 of the texts from number `start` on, window after window."""

    def score(
        self, cross: CrossEncoder, queries: Sequence[str], passages: Tokenised, pairs: Pairs, *, progress: bool = False
    ) -> Scores:
        """What the cross-encoder says of each pair (n, 2) of a query and a passage."""


class InProcess:
    """All is done here."""

    speedup = 1.0

    def precision(self, encoder: Encoder) -> str:
        return teacher_precision(encoder.device)

    def encode(
        self, encoder: Encoder, texts: Sequence[str], *, start: int = 0, progress: bool = False
    ) -> Generator[NDArray[np.floating]]:
        bulk = BulkEncoding(encoder, **_encoding_options(encoder, encoder.device))
        with (
            progress_bar("encoding", len(texts) - start, "texts", shown=progress) as advance,
            at_inference(encoder),
        ):
            yield from bulk.windows(_windows(texts, start, encoder.device), advance)

    def score(
        self, cross: CrossEncoder, queries: Sequence[str], passages: Tokenised, pairs: Pairs, *, progress: bool = False
    ) -> Scores:
        found = np.empty(len(pairs), dtype=np.float32)
        with progress_bar("scoring", len(pairs), "pairs", shown=progress) as advance:
            for share in _shares(len(pairs), cross.device):
                found[share] = cross.score(queries, passages, pairs[share])
                advance(len(pairs[share]))
        return found


def check_engine(engine: str, workers: int | None, device: str | None) -> None:
    """That it is one, is installed, and goes with the rest: before anything is read or loaded."""
    if engine not in get_args(EngineName):
        raise SettingError(f"engine: {engine!r} is neither process nor ray.", argument="engine")
    if engine == "process":
        if workers is not None:
            raise SettingError("workers: are Ray's; give engine ray (--engine ray) with it.", argument="workers")
        return
    if workers is not None and workers < 1:
        raise SettingError(f"workers: {workers} is below 1.", argument="workers")
    if device not in (None, "cpu", "cuda"):
        raise SettingError(
            f"device: {device!r} with engine ray; name cpu or cuda, each worker has a GPU of its own.",
            argument="device",
        )
    require("ray.data", "ray", PURPOSE)


def make_workforce(
    engine: EngineName, models: Models, *, workers: int | None, device: str | None
) -> AbstractContextManager[Workforce]:
    """workers: None takes one for each GPU of the cluster, or two."""
    if engine == "process":
        return nullcontext(InProcess())
    return OverRay(models, workers=workers, gpus=None if device is None else float(device == "cuda"))


class OverRay(RayWorkforce):
    """Workers that stay as long as the `with` does. models: the largest that they are going to hold.

    They are given an encoder for as long as all texts take, and the cross-encoder once.
    """

    def __init__(self, models: Models, *, workers: int | None = None, gpus: float | None = None) -> None:
        super().__init__(PURPOSE, workers=workers, gpus=gpus)
        of_encoders = [_weigh(encoder) for encoder in (models.base, *models.teachers.values())]
        self._weights = max(of_encoders) + (0 if models.cross is None else _weigh(models.cross.model))
        self._actors: list[Any] = []
        self._held: CrossEncoder | None = None  # by the workers

    def object_store(self) -> int:
        return OBJECT_STORE + 2 * self._weights

    @property
    def device(self) -> torch.device:
        return torch.device("cuda" if self.resources["num_gpus"] else "cpu")

    @property
    def speedup(self) -> float:
        """By the number of GPUs; or by that of processors, of which this process takes all that the machine has."""
        if self.device.type == "cuda":
            return float(self.workers)
        cpus: int = self.resources["num_cpus"]
        return max(1.0, self.workers * cpus / torch.get_num_threads())

    def precision(self, encoder: Encoder) -> str:
        return teacher_precision(self.device)

    def __enter__(self) -> Self:
        import ray

        with ExitStack() as stack:
            super().__enter__()
            stack.callback(self._open.close)
            remote: Any = ray.remote  # its types leave out max_concurrency
            actor = remote(max_concurrency=CALLS_AT_A_TIME, **self.resources)(_Worker)
            self._actors = [actor.remote(str(self.device)) for _ in range(self.workers)]
            self._open.callback(self._end)
            self._ask_all("begin")  # what it takes to start is no work, whose time is measured
            stack.pop_all()
        return self

    def encode(
        self, encoder: Encoder, texts: Sequence[str], *, start: int = 0, progress: bool = False
    ) -> Generator[NDArray[np.floating]]:
        import ray

        if len(texts) - start < FEWEST_FOR_WORKERS:
            yield from InProcess().encode(encoder, texts, start=start, progress=progress)
            return
        counted: dict[str, CutTexts] = {}
        reference = ray.put(_copy_to_cpu(encoder))
        # within a list Ray hands over the reference itself
        self._ask_all("hold_encoder", [reference], _encoding_options(encoder, self.device))
        calls = (("encode", (window,)) for window in _windows(texts, start, self.device))
        with (
            progress_bar("encoding", len(texts) - start, "texts", shown=progress) as advance,
            counted_here(encoder, counted),
        ):
            for vectors, counts in self._in_order(calls):
                note_counts(counted, counts)
                advance(len(vectors))
                yield vectors

    def score(
        self, cross: CrossEncoder, queries: Sequence[str], passages: Tokenised, pairs: Pairs, *, progress: bool = False
    ) -> Scores:
        if len(pairs) < FEWEST_FOR_WORKERS:
            return InProcess().score(cross, queries, passages, pairs, progress=progress)
        self._let_hold(cross)
        shares = (pairs[share] for share in _shares(len(pairs), self.device))
        calls = (("score", _only_what_is_used(queries, passages, share)) for share in shares)
        found = []
        with progress_bar("scoring", len(pairs), "pairs", shown=progress) as advance:
            for scores, cut in self._in_order(calls):
                for counter in (cross.cut_counter, OF_THIS_PROCESS):
                    counter.add(cross.max_length, len(scores), cut)
                found.append(scores)
                advance(len(scores))
        return np.concatenate(found)

    def _let_hold(self, cross: CrossEncoder) -> None:
        import ray

        if self._held is not cross:
            model = copy.deepcopy(cross.model).cpu()
            reference = ray.put((model, cross.tokenizer, cross.name, cross.max_length))
            self._ask_all("hold_judge", [reference])
            self._held = cross

    def _ask_all(self, method: str, *given: Any) -> None:
        """Every worker, and wait for all: of two calls that wait, a worker may take up either first."""
        import ray

        with translate_worker_errors():
            ray.get([getattr(actor, method).remote(*given) for actor in self._actors])

    def _in_order(self, calls: Iterable[Call]) -> Iterator[Any]:
        """What comes of the calls, in their order; each goes to a worker that has room."""
        import ray

        numbered = enumerate(calls)
        free = deque(self._actors * CALLS_AT_A_TIME)
        under_way: dict[Any, tuple[int, Any]] = {}
        ended: dict[int, Any] = {}
        turn = 0
        with translate_worker_errors():
            while True:
                while free and len(ended) < WAITING * self.workers:
                    number, call = next(numbered, (-1, None))
                    if call is None:
                        break
                    actor, (method, given) = free.popleft(), call
                    under_way[getattr(actor, method).remote(*given)] = number, actor
                if not under_way:
                    return
                [reference], _ = ray.wait(list(under_way), num_returns=1)
                number, actor = under_way.pop(reference)
                free.append(actor)
                ended[number] = reference
                while turn in ended:
                    yield ray.get(ended.pop(turn))
                    turn += 1

    def _end(self) -> None:
        import ray

        for actor in self._actors:  # a cluster that was there before would keep them
            ray.kill(actor)
        self._actors, self._held = [], None


class _Worker:
    """One of the processes. It is asked from two threads; its models compute for one at a time."""

    def __init__(self, device: str) -> None:
        self.device = device
        self.encoding: EncodingWorker | None = None
        self.cross: CrossEncoder | None = None

    def begin(self) -> None:
        """Answers once this process is there, with all that it imports."""

    def hold_encoder(self, encoder: list[Any], options: dict[str, Any]) -> None:
        self.encoding = EncodingWorker(encoder[0], self.device, options)

    def hold_judge(self, judge: list[Any]) -> None:
        import ray

        model, tokenizer, name, max_length = ray.get(judge[0])
        self.cross = CrossEncoder(model.to(self.device), tokenizer, name, max_length=max_length)

    def encode(self, window: list[str]) -> tuple[NDArray[np.float16], dict[str, Any]]:
        assert self.encoding is not None
        return self.encoding.vectors(window).astype(np.float16), self.encoding.counts()

    def score(self, queries: list[str], passages: Tokenised, pairs: Pairs) -> tuple[Scores, int]:
        """The scores, and how many pairs were cut."""
        assert self.cross is not None
        found = self.cross.score_and_count(queries, passages, pairs)
        return found.scores, int(found.cut.sum())


def _encoding_options(encoder: Encoder, device: torch.device) -> dict[str, Any]:
    """Of `BulkEncoding`. On a GPU encoders compute in bf16, which is several times as fast."""
    return {"normalize": True, "precision": teacher_precision(device), "prompt": encoder.settings.prompt(None)}


def _windows(texts: Sequence[str], start: int, device: torch.device) -> Iterator[list[str]]:
    size = TEXTS_ON_GPU if device.type == "cuda" else TEXTS_ON_CPU
    for begin in range(start, len(texts), size):
        window = list(texts[begin : begin + size])
        check_sentences(window)
        yield window


def _shares(count: int, device: torch.device) -> list[slice]:
    size = PAIRS_ON_GPU if device.type == "cuda" else PAIRS_ON_CPU
    return [slice(begin, begin + size) for begin in range(0, count, size)]


def _only_what_is_used(queries: Sequence[str], passages: Tokenised, pairs: Pairs) -> tuple[list[str], Tokenised, Pairs]:
    """The queries and passages that these pairs have, and the pairs by their numbers there."""
    asked, first = np.unique(pairs[:, 0], return_inverse=True)
    used, second = np.unique(pairs[:, 1], return_inverse=True)
    numbers = np.stack([first.reshape(-1), second.reshape(-1)], axis=1)
    return [queries[number] for number in asked.tolist()], passages.select(used), numbers


def _copy_to_cpu(encoder: Encoder) -> Encoder:
    copied = copy.deepcopy(encoder)
    copied.set_aside()
    return copied


def _weigh(model: torch.nn.Module) -> int:
    """Bytes."""
    return sum(tensor.nbytes for tensor in model.state_dict().values())
