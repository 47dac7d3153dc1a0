"""Steps of a language model that are recorded on a GPU and replayed.

A step of decoding has hundreds of small operations. The host takes several times as long to launch them one by one as
the GPU takes to compute them; a recording is launched as one. Its shapes are fixed (`FixedRows`), so there is one for
each number of rows and span of columns, of which few occur.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from nearer.construct.engines.key_values import FixedRows, Rows, StepShape

WARM_UP = 2  # passes before a recording: in the first, libraries choose their kernels


class RecordedSteps:
    """As `next_logits`, for one buffer of rows. On a CPU the same operations run as they are."""

    def __init__(self, model: Any, rows: Rows, window: int) -> None:
        """window: tokens of the longest context."""
        self._model, self._rows, self._window = model, rows, window
        self._steps: dict[StepShape, _Step] = {}
        # of all recordings, which never run at the same time
        self._logits: Tensor | None = None
        self._memory: Any = None
        rows.before_new_buffers = self.forget

    def next_logits(self, tokens: Tensor) -> Tensor:
        """(rows, vocabulary): each row's token is added to its context. The next step writes over them."""
        rows = self._rows
        shape = rows.step_shape()
        if self._logits is None:
            vocabulary = self._model.get_output_embeddings().weight.shape[0]
            size = (rows.allocated, vocabulary)
            self._logits = torch.empty(size, dtype=self._model.dtype, device=tokens.device)
            self._memory = torch.cuda.graph_pool_handle() if tokens.device.type == "cuda" else None
        if shape not in self._steps:
            self._steps[shape] = _Step(
                self._model, rows.fixed(shape), self._window, self._logits[: shape.rows], self._memory
            )
        step = self._steps[shape]
        step.tokens[: rows.count] = tokens
        rows.set_inputs(step.rows)
        step.run()
        found = self._logits[: rows.count]
        rows.advance()  # this may replace the buffers
        return found

    def forget(self) -> None:
        """Drop all recordings and their memory: they write into buffers that are about to be replaced."""
        self._steps.clear()
        self._logits = self._memory = None


class _Step:
    """One shape of a step. logits: where they go; memory: of a GPU, for what is computed on the way."""

    def __init__(self, model: Any, rows: FixedRows, window: int, logits: Tensor, memory: Any) -> None:
        self._model, self.rows, self._window, self._logits, self._memory = model, rows, window, logits, memory
        self.tokens = torch.zeros(len(logits), dtype=torch.long, device=logits.device)
        self._recording: torch.cuda.CUDAGraph | None = None

    def run(self) -> None:
        if self.tokens.device.type != "cuda":
            self._compute()
            return
        if self._recording is None:
            self._record()
        assert self._recording is not None
        self._recording.replay()

    def _compute(self) -> None:
        out = self._model(
            input_ids=self.tokens[:, None],
            position_ids=self.rows.positions(self._window),
            attention_mask=self.rows.mask(),
            past_key_values=self.rows,
            use_cache=True,
        )
        self._logits.copy_(out.logits[:, -1])

    def _record(self) -> None:
        """Warming up writes the same keys and values as the replay that follows, to the same places."""
        here, beside = torch.cuda.current_stream(), torch.cuda.Stream()  # type: ignore[no-untyped-call]
        beside.wait_stream(here)
        with torch.cuda.stream(beside):
            for _ in range(WARM_UP):
                self._compute()
        here.wait_stream(beside)
        recording = torch.cuda.CUDAGraph()
        with torch.cuda.graph(recording, pool=self._memory, capture_error_mode="thread_local"):
            self._compute()
        self._recording = recording
