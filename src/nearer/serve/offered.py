"""A model that requests can name: its queue, its index if it has one, and what is worked out over that index."""

from __future__ import annotations

import asyncio
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from nearer.serve.batching import Batcher
from nearer.serve.index_geometry import IndexGeometry, measure
from nearer.serve.index_sample import IndexSample, sample_index
from nearer.serve.limits import Limits, Refusal, invalid
from nearer.serve.metrics import Metrics
from nearer.serve.once import GoOn, Once
from nearer.serve.sentence_map import SentenceMap, make_map
from nearer.serve.served import ServedModel, Vectors

if TYPE_CHECKING:
    from nearer.search import SearchIndex

# Sentences queued at a time for the geometry, after which it is looked whether the service ends
SENTENCES_AT_ONCE = 32
# As whose texts the geometry's wait: it has its turn beside the clients
GEOMETRY = "geometry of the index"


class Offered:
    """name: what requests call it. Nothing is computed, and no thread runs, before the first request for it."""

    def __init__(
        self, name: str, model: ServedModel, index: SearchIndex | None, limits: Limits, metrics: Metrics
    ) -> None:
        self.name = name
        self.model = model
        self.index = index
        self.batcher = Batcher(model, limits, metrics)
        self.map: Once[SentenceMap] = Once(self._make_map, "nearer-map")
        self.geometry: Once[IndexGeometry] = Once(self._measure, "nearer-geometry")

    def need_index(self) -> SearchIndex:
        if self.index is None:
            message = f"{self.name!r} is served without an index; start the service with one (--index, --beside-index)."
            raise Refusal(404, f"model: {message}", code="no_index", param="model")
        return self.index

    def need_cosines(self) -> None:
        """For what is said of cosines, and would mislead where a model compares in another way."""
        scoring = self.model.model.scoring
        if scoring != "cosine":
            message = f"{self.name!r} compares by {scoring}; figures of its vectors' cosines say nothing of that."
            raise invalid("model", message, "not_applicable")

    @cached_property
    def queries(self) -> ServedModel:
        """The model as it encodes the index' queries."""
        return self._as_indexed(self.need_index().model.facts.query_prompt)

    @cached_property
    def sentences(self) -> ServedModel:
        """The model as it encoded the index' own sentences."""
        return self._as_indexed(self.need_index().model.facts.prompt)

    def open(self) -> None:
        self.batcher.open()
        self.map.open()
        self.geometry.open()

    def close(self) -> None:
        """Returns when all that was queued is answered; a map half made is given up."""
        self.map.close()
        self.geometry.close()
        self.batcher.close()

    @cached_property
    def sample(self) -> IndexSample:
        return sample_index(self.need_index())

    def _as_indexed(self, prompt: str | None) -> ServedModel:
        model = self.need_index().model
        return ServedModel(model.encoder, self.name, normalize=True, precision=model.facts.precision, prompt=prompt)

    def _make_map(self, go_on: GoOn) -> SentenceMap:
        return make_map(self.sample, go_on)

    def _measure(self, go_on: GoOn) -> IndexGeometry:
        return measure(self.sample, lambda texts: asyncio.run(self._encoded(texts, go_on)))

    async def _encoded(self, texts: list[str], go_on: GoOn) -> Vectors:
        """As the index' own sentences were, by the thread that owns the model."""
        parts = []
        for start in range(0, len(texts), SENTENCES_AT_ONCE):
            go_on()
            some = texts[start : start + SENTENCES_AT_ONCE]
            parts.append(
                await self.batcher.submit(some, lambda encoded: encoded.vectors, client=GEOMETRY, model=self.sentences)
            )
        return np.concatenate(parts)
