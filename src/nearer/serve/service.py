"""What the endpoints share: the served models behind their queues, what clients hold, and how a request waits.

Texts may come as token ids of OpenAI's cl100k_base: LangChain's client sends them so unless it is told not to.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import numpy as np

from nearer.errors import InputError, SettingError
from nearer.serve.background import CheckEnding, ComputedOnce, Steps, Workers
from nearer.serve.batcher import Batcher
from nearer.serve.fairness import Share, Turns, holding_of
from nearer.serve.index_overview import (
    IndexGeometry,
    IndexSample,
    SentenceMap,
    make_map,
    measure_geometry,
    sample_index,
)
from nearer.serve.limits import CLIENT_GONE, Limits, Refusal, ending, invalid, overloaded
from nearer.serve.metrics import Metrics
from nearer.serve.model import Encoded, PairTexts, ServedModel, Vectors

if TYPE_CHECKING:
    from fastapi import Request

    from nearer.search import SearchIndex
    from nearer.teachers import CrossEncoder


T = TypeVar("T")
Outcome = Literal["answered", "refused", "cut off"]
# Sentences queued at a time for the geometry, after which it is looked whether the service ends
SENTENCES_AT_ONCE = 32
# As whose texts the geometry's wait: it has its turn beside the clients
GEOMETRY = "geometry of the index"


class Service:
    """What the endpoints share: the models behind their queues, what clients hold, and how a request waits."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.metrics = Metrics()
        self.token_decoder = TokenDecoder()
        self.models: list[HostedModel] = []
        self.started = int(time.time())
        self.request_slots = Share(limits.concurrent)
        self.memory = Share(limits.held)
        self.connections = Share(limits.connections)
        self.long_steps = Turns()
        self.workers = Workers("nearer-work")
        self.open_requests = 0
        self.ending = False
        self.at_the_end: Counter[Outcome] = Counter()
        self._over: asyncio.Future[None] | None = None

    def add_model(self, model: ServedModel, index: SearchIndex | None) -> None:
        """A second model of the same name is called "NAME (2)"."""
        name = model.name if model.name not in self.names else f"{model.name} (2)"
        self.models.append(HostedModel(name, model, index, self.limits, self.metrics))

    @property
    def names(self) -> list[str]:
        return [hosted.name for hosted in self.models]

    @property
    def waiting_texts(self) -> int:
        return sum(hosted.batcher.waiting for hosted in self.models)

    def find(self, name: str | None) -> HostedModel:
        """None is the first. No other model is ever looked for, whatever a request calls it."""
        for hosted in self.models:
            if name is None or name == hosted.name:
                return hosted
        served = "served is" if len(self.models) == 1 else "served are"
        names = " and ".join(map(repr, self.names))
        message = f"model: {(name or '')[:100]!r} is not served here; {served} {names}."
        raise Refusal(404, message, code="model_not_found", param="model")

    def open(self) -> None:
        self._over = asyncio.get_running_loop().create_future()
        self.ending = False
        self.workers.open()
        for hosted in self.models:
            hosted.open()

    def begin_end(self) -> None:
        """From now on running requests have `grace` seconds; who waits longer is told that the service ends."""
        self.ending = True
        over = self._over
        if over is not None and not over.done():
            over.get_loop().call_later(self.limits.grace, over.set_result, None)

    def close(self) -> None:
        self.workers.close()
        for hosted in self.models:
            hosted.close()

    async def encode(self, request: Request, hosted: HostedModel, texts: list[str]) -> Encoded:
        """The texts' vectors. Nothing is computed for a client that has gone."""
        return await self.wait(request, self.submit_texts(request, hosted, texts))

    def submit_texts(
        self, request: Request, hosted: HostedModel, texts: list[str], model: ServedModel | None = None
    ) -> asyncio.Future[Encoded]:
        """The vectors to come, from the model's queue. model: see `Batcher.submit`."""
        holding = holding_of(request)
        # those of its pieces, and all of them together
        holding.take(2 * len(texts) * hosted.model.dimension * 4)
        return hosted.batcher.submit(texts, lambda encoded: encoded, client=holding.client, model=model)

    def submit_pairs(
        self, request: Request, hosted: HostedModel, judge: CrossEncoder, query: str, texts: list[str]
    ) -> asyncio.Future[Encoded]:
        """A cross-encoder's scores to come, from the model's queue, as vectors of one number each."""
        holding = holding_of(request)
        holding.take(2 * len(texts) * 4)
        pairs = PairTexts(judge, query)
        return hosted.batcher.submit(texts, lambda encoded: encoded, client=holding.client, model=pairs)

    def submit_steps(self, request: Request, steps: Steps[T]) -> asyncio.Future[T]:
        """What the steps return, which are taken beside the model."""
        return self.workers.submit(holding_of(request).client, steps)

    async def compute_once(self, request: Request, once: ComputedOnce[T]) -> T:
        """What is worked out once; it goes on when this client has gone or has waited too long."""
        found: T = await self.wait(request, asyncio.wrap_future(once.ask()))
        return found

    async def wait(self, request: Request, work: Awaitable[T]) -> T:
        """Until it is done, the client has gone, the time is over, or the service ends: then it is cancelled."""
        answer, gone = asyncio.ensure_future(work), asyncio.ensure_future(_gone(request))
        over = self._no_time_left()
        try:
            waited_for: set[asyncio.Future[Any]] = {answer, gone, *over}
            await asyncio.wait(waited_for, timeout=self.limits.timeout, return_when=asyncio.FIRST_COMPLETED)
            if answer.done():
                return answer.result()
            if gone.done():
                raise Refusal(CLIENT_GONE, "The client went away.", code="client_gone")
            if any(one.done() for one in over):
                raise ending()
            raise overloaded(f"No answer within {self.limits.timeout:g} seconds; try again later.")
        except (InputError, SettingError) as error:
            raise Refusal(422, str(error), code="invalid_value") from None
        finally:
            answer.cancel()
            gone.cancel()

    def _no_time_left(self) -> set[asyncio.Future[None]]:
        """Done when the service ends. Without a lifespan, requests come in loops of their own, which know no end."""
        over = self._over
        return {over} if over is not None and over.get_loop() is asyncio.get_running_loop() else set()


class HostedModel:
    """name: what requests call it. Nothing is computed, and no thread runs, before the first request for it."""

    def __init__(
        self, name: str, model: ServedModel, index: SearchIndex | None, limits: Limits, metrics: Metrics
    ) -> None:
        self.name = name
        self.model = model
        self.index = index
        self.batcher = Batcher(model, limits, metrics)
        self.map: ComputedOnce[SentenceMap] = ComputedOnce(self._make_map, "nearer-map")
        self.geometry: ComputedOnce[IndexGeometry] = ComputedOnce(self._measure, "nearer-geometry")

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

    def _make_map(self, check_ending: CheckEnding) -> SentenceMap:
        return make_map(self.sample, check_ending)

    def _measure(self, check_ending: CheckEnding) -> IndexGeometry:
        return measure_geometry(self.sample, lambda texts: asyncio.run(self._encoded(texts, check_ending)))

    async def _encoded(self, texts: list[str], check_ending: CheckEnding) -> Vectors:
        """As the index' own sentences were, by the thread that owns the model."""
        parts = []
        for start in range(0, len(texts), SENTENCES_AT_ONCE):
            check_ending()
            some = texts[start : start + SENTENCES_AT_ONCE]
            parts.append(
                await self.batcher.submit(some, lambda encoded: encoded.vectors, client=GEOMETRY, model=self.sentences)
            )
        return np.concatenate(parts)


async def _gone(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


ENCODING = "cl100k_base"
MEND = "Send text instead; in LangChain: OpenAIEmbeddings(check_embedding_ctx_length=False)."
# Seconds that a request waits for the encoding. tiktoken fetches its file at first use, and would wait for ever.
PATIENCE = 10.0


def load_encoding() -> Any:
    """tiktoken's encoding, from its cache ($TIKTOKEN_CACHE_DIR) or from the network."""
    import tiktoken

    return tiktoken.get_encoding(ENCODING)


class TokenDecoder:
    """Token ids to text. The encoding is loaded when the first ids come, in a thread that nothing waits for longer
    than `patience` seconds; what failed is tried again with the next ids."""

    def __init__(self, load: Callable[[], Any] = load_encoding, patience: float = PATIENCE) -> None:
        self._patience = patience
        self._encoding: ComputedOnce[Any] = ComputedOnce(lambda _: load(), "nearer-token-ids")

    async def decode(self, lists: Sequence[Sequence[int]], limits: Limits) -> list[str]:
        count = sum(map(len, lists))
        if count > limits.tokens:
            raise invalid("input", f"{count:,} token ids; at most {limits.tokens:,} are taken.", "too_many_tokens")
        encoding = await self._load()
        return [_decode(encoding, ids, number) for number, ids in enumerate(lists)]

    async def _load(self) -> Any:
        asked = asyncio.wrap_future(self._encoding.ask())
        try:
            return await asyncio.wait_for(asked, self._patience)
        except ImportError:
            raise _unreadable("the package tiktoken where the service runs (pip install tiktoken)") from None
        except TimeoutError:
            reason = f"did not come within {self._patience:g} seconds"
        except Exception as error:  # the network's, the file system's, and that of a file with another content
            reason = f"could not be had ({type(error).__name__})"
        raise _unreadable(
            f"tiktoken's file of {ENCODING}, which {reason}; $TIKTOKEN_CACHE_DIR may name a folder that has it"
        )


def _decode(encoding: Any, ids: Sequence[int], number: int) -> str:
    try:
        text: str = encoding.decode(ids)  # long texts are cut anywhere: half a character becomes a replacement sign
    except (KeyError, OverflowError):
        raise invalid("input", f"item {number} has a token id that {ENCODING} does not have. {MEND}") from None
    return text


def _unreadable(needed: str) -> Refusal:
    return invalid("input", f"token ids need {needed}. {MEND}", "token_ids")
