"""The folder of debiased samples (DebCSE): one record for each different sentence of a corpus, restartable."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from nearer.construct.construction import Construction, Format
from nearer.construct.debiased_sampler import DebiasedSampler, DebiasedSettings, DistinctSentences
from nearer.construct.positives import PositiveGenerator
from nearer.errors import SettingError
from nearer.teachers.vector_store import VectorStore
from nearer.terminal import progress_bar
from nearer.text.reading import Reading
from nearer.versions import library_versions

# Anchors between two writes: what an interruption costs. A generator that is a model takes seconds for each on a CPU.
BLOCK_ON_GPU, BLOCK_ON_CPU, BLOCK_OF_A_SLOW_GENERATOR = 2048, 256, 32


class DebiasedBuilder:
    """Builds the folder, or goes on with one of the same corpus, encoder, generator and settings.

    The folder is opened at once: one that cannot be used is told before anything is encoded. limit: the first so many
    anchors alone (their negatives come from the whole corpus all the same); a later run with a higher one goes on.
    """

    def __init__(
        self,
        folder: str | Path,
        reading: Reading[str],
        store: VectorStore,
        generator: PositiveGenerator,
        settings: DebiasedSettings,
        *,
        limit: int | None = None,
        format: Format = "jsonl",
        block_size: int | None = None,
    ) -> None:
        if limit is not None and limit < 1:
            raise SettingError(f"limit: {limit} is below 1.")
        self.reading, self.store, self.generator, self.settings = reading, store, generator, settings
        self.limit = limit
        self.block_size = block_size or _block_size(store, generator)
        self.wanted = 0  # until the corpus is known
        self.corpus: DistinctSentences | None = None
        self.sampler: DebiasedSampler | None = None
        about = {
            "kind": "debiased samples",
            "corpus": reading.fingerprint(),
            "encoder": store.fingerprint,
            "generator": generator.identity(),
            **settings.about(),
        }
        notes = {
            "corpus": reading.source,
            "encoder": store.encoder.name,
            "generator": generator.name,
            "versions": library_versions(),
        }
        self.building = Construction(folder, about, notes=notes, format=format)

    def learn(self, *, progress: bool = False) -> DistinctSentences:
        """The corpus with its vectors; those that are not known yet are computed."""
        with self._left_to_others_if_it_fails():
            return self._learn(progress)

    def _learn(self, progress: bool) -> DistinctSentences:
        self.corpus = DistinctSentences.learn(self.reading, self.store, progress=progress)
        self.wanted = min(self.limit or len(self.corpus), len(self.corpus))
        self.sampler = DebiasedSampler(self.corpus, self.store, self.generator, self.settings)
        return self.corpus

    def build(self, *, progress: bool = False) -> None:
        """All that is missing. What is interrupted loses the block it was at, and leaves the folder to others."""
        with self._left_to_others_if_it_fails():
            self._build(progress)

    @contextmanager
    def _left_to_others_if_it_fails(self) -> Iterator[None]:
        try:
            yield
        except BaseException:
            self.building.close()
            raise

    def _build(self, progress: bool) -> None:
        if self.sampler is None:
            self.learn(progress=progress)
        assert self.sampler is not None
        done = sum(number < self.wanted for number in self.building.done)
        if done == self.wanted:
            return
        self.sampler.check_range(self.wanted)
        with progress_bar("debiased samples", self.wanted, "sentences", shown=progress) as advance:
            advance(done)
            for start in range(0, self.wanted, self.block_size):
                numbers = np.arange(start, min(start + self.block_size, self.wanted))
                missing = [number for number in numbers.tolist() if number not in self.building.done]
                if missing:
                    # the whole block, so that a second run computes on the same shapes and rounds as the first would
                    self._keep(dict(zip(numbers.tolist(), self.sampler.records(numbers), strict=True)), missing)
                    advance(len(missing))

    def _keep(self, found: Mapping[int, dict[str, Any] | str], missing: list[int]) -> None:
        records = {number: found[number] for number in missing}
        self.building.add_many((number, record) for number, record in records.items() if isinstance(record, dict))
        for number, record in records.items():
            if isinstance(record, str):
                self.building.reject(number, record)

    def finish(self, summary: Mapping[str, Any] | None = None) -> Path:
        """Write the data set. `summary` joins its header."""
        facts = {"limit": self.limit, **(summary or {})}
        if self.corpus is not None:
            facts = {"different_sentences": len(self.corpus), "repeated_sentences": self.corpus.repeated, **facts}
        return self.building.finish(facts)

    def shortfalls(self, counts: Counter[str]) -> list[str]:
        """What had to be made do with, in words; `counts` as `sample_table.survey` gives them."""
        lines = []
        if counts["short pools"]:
            lines.append(
                f"{counts['short pools']:,} negative pools had fewer than {self.settings.negatives} sentences "
                f"({counts['empty pools']:,} none): {counts['negatives from below']:,} negatives are random sentences "
                f"with a cosine below {self.settings.low:g}"
            )
        if counts["repeated positives"]:
            lines.append(
                f"{counts['repeated positives']:,} positives are repeated, for want of different candidates "
                f"(--candidates {self.settings.candidates})"
            )
        if counts["without candidates"]:
            lines.append(f"{counts['without candidates']:,} sentences have no candidate: they are their own positives")
        for reason, count in self.building.rejected.most_common():
            lines.append(f"{count:,} sentences became no record: {reason}")
        for reason, count in self.generator.rejected.most_common():
            lines.append(f"{count:,} candidates were not used: {reason}")
        return lines


def _block_size(store: VectorStore, generator: PositiveGenerator) -> int:
    if store.encoder.device.type == "cuda":
        return BLOCK_ON_GPU
    return BLOCK_ON_CPU if generator.name == "noise" else BLOCK_OF_A_SLOW_GENERATOR
