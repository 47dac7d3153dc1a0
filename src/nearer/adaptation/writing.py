"""Queries that a language model writes for passages: to learn from, and as a test where that was asked for.

They are written once, into a folder of `nearer construct queries`, which goes on where it was interrupted.
"""

from __future__ import annotations

import json
import tempfile
import time
from collections import Counter
from collections.abc import Collection, Sequence
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from nearer.adaptation.labels import key_of
from nearer.adaptation.passages import Passage
from nearer.construct.engines import is_server, load_engine
from nearer.construct.queries import QueryPassage, QuerySettings, construct_queries
from nearer.construct.query_rules import STYLES
from nearer.construct.requests import Engine
from nearer.errors import InputError

# Queries that are written at the same time. On a GPU a step of 256 should take hardly longer than one of 64.
ON_GPU, ON_CPU = 256, 16
TRIED = 8  # queries that its speed is measured by on a CPU, and that a GPU writes before it is measured
MOST_TOKENS = 64
TEMPERATURE, TOP_P = 0.7, 0.9
DATA = "data.jsonl"


class Written(NamedTuple):
    """A query. style: how it was to be asked; passage: the number of the one that it was written for."""

    query: str
    style: str
    passage: int


class Writer:
    """A language model that is loaded when it is first asked, and may be let go."""

    def __init__(self, model: str, *, seed: int, device: str) -> None:
        self.model = model
        self.seed = seed
        self.device = device
        self.batch = ON_GPU if device.startswith("cuda") else ON_CPU

    @cached_property
    def engine(self) -> Engine:
        return load_engine(
            self.model,
            batch=self.batch,
            max_new_tokens=MOST_TOKENS,
            temperature=TEMPERATURE,
            top_p=TOP_P,
            seed=self.seed,
            device=None if is_server(self.model) else self.device,
        )

    def close(self) -> None:
        """Give its memory to others; it is loaded again when it is asked again."""
        from nearer.construct.engines.language_model import free_memory

        self.__dict__.pop("engine", None)
        free_memory()

    def measure(self, passages: Sequence[Passage]) -> float:
        """Seconds of a query, by a few of them, whatever they are worth.

        On a GPU a whole batch is under way, as it is later, so all are of one style; and a few come before, since the
        first answers wait for what a GPU makes ready.
        """
        on_gpu = self.batch == ON_GPU
        count = self.batch if on_gpu else TRIED
        chosen = passages[:: max(1, len(passages) // count)][:count]
        asked = [QueryPassage(passage.id, passage.titled) for passage in chosen]
        if on_gpu:
            self._try(asked[:TRIED], QuerySettings())
            seconds = self._try(asked, QuerySettings(STYLES[:1])) / len(asked)
            self._free_buffers()  # tests are made first, and two runs of adapt on one GPU had no memory left
            return seconds
        return self._try(asked, QuerySettings()) / len(asked)

    def _free_buffers(self) -> None:
        """Keep the weights alone, which take long to load."""
        from nearer.construct.engines.transformers_engine import TransformersEngine

        if isinstance(self.engine, TransformersEngine):
            self.engine.free_buffers()

    def _try(self, asked: Sequence[QueryPassage], settings: QuerySettings) -> float:
        """Seconds that it took."""
        engine = self.engine
        with tempfile.TemporaryDirectory() as folder:
            started = time.perf_counter()
            try:
                construct_queries(asked, engine, settings, folder, seed=self.seed, batch=self.batch)
            except InputError:  # nothing could be used
                raise InputError(
                    f"{self.model}: none of {len(asked)} answers is a query; another language model may help.",
                    argument="llm",
                ) from None
            return time.perf_counter() - started

    def write(
        self,
        passages: Sequence[Passage],
        numbers: Sequence[int],
        folder: Path,
        *,
        limit: int,
        unlike: Collection[str],
        progress: bool,
    ) -> list[Written]:
        """Queries for passages that are drawn from these (by their numbers); what was finished before is only read.

        limit: how many are asked for; fewer are kept. unlike: keys of queries that must not be learnt from.
        """
        if not (folder / DATA).is_file():
            asked = [QueryPassage(passages[number].id, passages[number].titled) for number in numbers]
            construct_queries(
                asked,
                self.engine,
                QuerySettings(),
                folder,
                seed=self.seed,
                limit=limit,
                batch=self.batch,
                notes={"llm": self.model},
                progress=progress,
            )
        number_of = {passages[number].id: number for number in numbers}
        found = [Written(row["query"], row["kind"], number_of[row["passage"]]) for row in _read(folder / DATA)]
        return [written for written in found if key_of(written.query) not in unlike]


def _read(path: Path) -> list[dict[str, str]]:
    try:
        return [json.loads(line) for line in path.read_text(encoding="utf-8").split("\n") if line]
    except (OSError, ValueError):
        raise InputError(f"{path}: is damaged; remove {path.parent} and start again.", argument="out") from None


def told_styles(written: Sequence[Written]) -> str:
    return ", ".join(f"{count:,} {style}" for style, count in count_styles(written).items()) or "none"


def count_styles(written: Sequence[Written]) -> dict[str, int]:
    return dict(sorted(Counter(one.style.replace("_", " ") for one in written).items()))
