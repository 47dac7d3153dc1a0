"""sentence-transformers' own training loop, taken on step by step.

Its loops run from start to end when called. Here they run in a thread of their own that waits, at one point of each
step, until the next step is wanted: what is timed is its code and nothing else, and rounds can alternate.
"""

from __future__ import annotations

import importlib
import importlib.util
import logging
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from torch.utils.data import DataLoader

from benchmarks.machine import PEER
from nearer.encoder.backbone import quiet
from nearer.extras import install_command

SCALE = 20.0  # 1 / 0.05
STEPS = 100_000  # more than are ever taken
MISSING_PEER = f"no rows of {PEER}: it is not installed ({install_command(PEER)})."


def peer_installed() -> bool:
    return importlib.util.find_spec("sentence_transformers") is not None


def peer_name() -> str:
    """The row's name, which says whether it is the trainer or, without what the trainer needs, the older `old_fit`."""
    return f"{PEER}, {'trainer' if _has_trainer() else 'old_fit'}"


def peer_precision(device: torch.device) -> str:
    """old_fit knows mixed precision in fp16 only."""
    return "float32" if device.type == "cpu" else "bf16" if _has_trainer() else "fp16"


def _has_trainer() -> bool:
    return all(importlib.util.find_spec(name) for name in ("datasets", "accelerate"))


class PeerLoop:
    """One step of sentence-transformers' training with its in-batch loss on (sentence, same sentence), or on pairs."""

    def __init__(
        self,
        folder: Path,
        sentences: Sequence[str],
        *,
        batch_size: int,
        max_length: int,
        device: torch.device,
        output: Path,
        positives: Sequence[str] | None = None,
    ) -> None:
        """folder: in the layout of sentence-transformers, so that its pooling is known. positives: one a sentence."""
        self.device = device
        self.model = load_peer(folder, device, torch.float32)
        self.model.max_seq_length = max_length
        run = _run_trainer if _has_trainer() else _run_old_fit
        pairs = list(zip(sentences, positives or sentences, strict=True))
        self.loop = _Paced(lambda pause: run(self.model, pairs, batch_size, output, pause))

    def advance(self) -> None:
        self.loop.advance()

    def synchronize(self) -> None:
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)

    def close(self) -> None:
        self.loop.stop()
        self.__dict__.clear()


def load_peer(folder: Path, device: torch.device, dtype: torch.dtype) -> Any:
    """A model in sentence-transformers."""
    from sentence_transformers import SentenceTransformer

    logging.getLogger("sentence_transformers").setLevel(logging.WARNING)
    with quiet():
        model = SentenceTransformer(str(folder), device=str(device), model_kwargs={"dtype": dtype})
    model.model_card_data.generate_widget_examples = False
    return model


Pairs = Sequence[tuple[str, str]]


def _run_trainer(model: Any, pairs: Pairs, batch_size: int, output: Path, pause: Callable[[], None]) -> None:
    from datasets import Dataset
    from sentence_transformers import SentenceTransformerTrainer, SentenceTransformerTrainingArguments
    from transformers import TrainerCallback

    class Paced(TrainerCallback):
        def on_step_begin(self, *_: Any, **__: Any) -> None:
            pause()

    arguments = SentenceTransformerTrainingArguments(
        output_dir=str(output),
        per_device_train_batch_size=batch_size,
        max_steps=STEPS,
        learning_rate=3e-5,
        bf16=model.device.type == "cuda",
        use_cpu=model.device.type == "cpu",
        dataloader_drop_last=True,
        save_strategy="no",
        report_to="none",
        disable_tqdm=True,
    )
    SentenceTransformerTrainer(
        model=model,
        args=arguments,
        train_dataset=Dataset.from_list([{"anchor": first, "positive": second} for first, second in pairs]),
        loss=_loss(model),
        callbacks=[Paced()],
    ).train()


def _run_old_fit(model: Any, pairs: Pairs, batch_size: int, output: Path, pause: Callable[[], None]) -> None:
    from sentence_transformers import InputExample

    class Paced(DataLoader[Any]):
        def __iter__(self) -> Iterator[Any]:  # type: ignore[override]
            for batch in super().__iter__():
                pause()
                yield batch

    examples: Any = [InputExample(texts=list(pair)) for pair in pairs]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that this way of training is the older one, which the row says
        model.old_fit(
            [(Paced(examples, batch_size=batch_size, shuffle=True, drop_last=True), _loss(model))],
            steps_per_epoch=STEPS,
            warmup_steps=0,
            optimizer_params={"lr": 3e-5},
            use_amp=model.device.type == "cuda",
            show_progress_bar=False,
        )


def _loss(model: Any) -> Any:
    moved = importlib.util.find_spec("sentence_transformers.sentence_transformer") is not None  # in version 5.4
    losses = importlib.import_module(f"sentence_transformers{'.sentence_transformer' if moved else ''}.losses")
    return losses.MultipleNegativesRankingLoss(model, scale=SCALE)


class _Stopped(BaseException):
    """Raised inside the other's loop to end it; not an Exception, so that nothing there takes it for its own."""


class _Paced:
    """A loop in a thread that goes on from one `pause` to the next whenever `advance` is called."""

    def __init__(self, loop: Callable[[Callable[[], None]], None]) -> None:
        self._wanted, self._reached = threading.Semaphore(0), threading.Semaphore(0)
        self._stopping = False
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, args=(loop,), name="nearer-peer", daemon=True)
        self._thread.start()
        self._wait()

    def advance(self) -> None:
        self._wanted.release()
        self._wait()

    def stop(self) -> None:
        self._stopping = True
        self._wanted.release()
        self._thread.join()

    def _run(self, loop: Callable[[Callable[[], None]], None]) -> None:
        try:
            loop(self._pause)
            self._error = RuntimeError("the loop ended before it was told to")
        except _Stopped:
            pass
        except BaseException as error:
            self._error = error
        self._reached.release()

    def _pause(self) -> None:
        self._reached.release()
        self._wanted.acquire()
        if self._stopping:
            raise _Stopped

    def _wait(self) -> None:
        self._reached.acquire()
        if self._error is not None:
            raise self._error
