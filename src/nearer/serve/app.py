"""The service as an application: endpoints over one or two models, each owned by a single thread."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Collection, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from nearer.errors import InputError, SettingError
from nearer.extras import require
from nearer.serve.description import describe_service
from nearer.serve.guard import CLIENT_GONE, Guard, Outcome, Paths, holding_of
from nearer.serve.limits import Limits, Refusal, ending, overloaded
from nearer.serve.metrics import Metrics
from nearer.serve.offered import Offered
from nearer.serve.once import Once
from nearer.serve.served import Encoded, ServedModel
from nearer.serve.shares import Share
from nearer.serve.token_ids import TokenDecoder
from nearer.serve.turns import Turns
from nearer.serve.work import Steps, Workers

if TYPE_CHECKING:
    from fastapi import FastAPI, Request

    from nearer.search import SearchIndex

logger = logging.getLogger("nearer.serve")
T = TypeVar("T")


class Service:
    """What the endpoints share: the models behind their queues, what clients hold, and how a request waits."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.metrics = Metrics()
        self.token_decoder = TokenDecoder()
        self.offered: list[Offered] = []
        self.started = int(time.time())
        self.places = Share(limits.concurrent)
        self.memory = Share(limits.held)
        self.connections = Share(limits.connections)
        self.long_steps = Turns()
        self.workers = Workers("nearer-work")
        self.open_requests = 0
        self.ending = False
        self.at_the_end: Counter[Outcome] = Counter()
        self._over: asyncio.Future[None] | None = None

    def offer(self, model: ServedModel, index: SearchIndex | None) -> None:
        """A second model of the same name is called "NAME (2)"."""
        name = model.name if model.name not in self.names else f"{model.name} (2)"
        self.offered.append(Offered(name, model, index, self.limits, self.metrics))

    @property
    def names(self) -> list[str]:
        return [one.name for one in self.offered]

    @property
    def waiting_texts(self) -> int:
        return sum(one.batcher.waiting for one in self.offered)

    def find(self, name: str | None) -> Offered:
        """None is the first. No other model is ever looked for, whatever a request calls it."""
        for one in self.offered:
            if name is None or name == one.name:
                return one
        served = "served is" if len(self.offered) == 1 else "served are"
        names = " and ".join(map(repr, self.names))
        message = f"model: {(name or '')[:100]!r} is not served here; {served} {names}."
        raise Refusal(404, message, code="model_not_found", param="model")

    def open(self) -> None:
        self._over = asyncio.get_running_loop().create_future()
        self.ending = False
        self.workers.open()
        for one in self.offered:
            one.open()

    def begin_end(self) -> None:
        """From now on running requests have `grace` seconds; who waits longer is told that the service ends."""
        self.ending = True
        over = self._over
        if over is not None and not over.done():
            over.get_loop().call_later(self.limits.grace, over.set_result, None)

    def close(self) -> None:
        self.workers.close()
        for one in self.offered:
            one.close()

    async def ask(self, request: Request, one: Offered, texts: list[str]) -> Encoded:
        """The texts' vectors. Nothing is computed for a client that has gone."""
        return await self.wait(request, self.encoded(request, one, texts))

    def encoded(
        self, request: Request, one: Offered, texts: list[str], model: ServedModel | None = None
    ) -> asyncio.Future[Encoded]:
        """The vectors to come, from the model's queue. model: see `Batcher.submit`."""
        holding = holding_of(request)
        # those of its pieces, and all of them together
        holding.take(2 * len(texts) * one.model.dimension * 4)
        return one.batcher.submit(texts, lambda encoded: encoded, client=holding.client, model=model)

    def worked(self, request: Request, steps: Steps[T]) -> asyncio.Future[T]:
        """What the steps return, which are taken beside the model."""
        return self.workers.submit(holding_of(request).client, steps)

    async def ask_once(self, request: Request, once: Once[T]) -> T:
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


async def _gone(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


def create_app(
    model: ServedModel,
    *,
    limits: Limits | None = None,
    index: SearchIndex | None = None,
    beside: ServedModel | None = None,
    beside_index: SearchIndex | None = None,
    api_keys: str | Sequence[str] = (),
    hosts: Collection[str] | None = None,
) -> FastAPI:
    """index: makes `/v1/search`, the map and the geometry answer. beside, beside_index: a second model, with a queue
    and an index of its own. api_keys: one of them is asked of every request except `/health` and the page. hosts: see
    `Guard`."""
    require("fastapi", "serve", "the service")
    from fastapi import FastAPI

    import nearer
    from nearer.serve.client_endpoints import add_client_endpoints
    from nearer.serve.endpoints import add_endpoints
    from nearer.serve.faults import add_fault_handlers
    from nearer.serve.index_endpoints import add_index_endpoints
    from nearer.serve.page_files import LOOK, add_page, read_page
    from nearer.serve.state_endpoints import add_state_endpoints

    page = read_page(shared=[LOOK])
    service = Service(limits or Limits())
    service.offer(model, index)
    if beside is not None:
        service.offer(beside, beside_index)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        service.open()
        yield
        await asyncio.to_thread(service.close)

    app = FastAPI(
        title="nearer",
        version=nearer.__version__,
        summary="Sentences to vectors, and which of them are nearer in meaning.",
        lifespan=lifespan,
        docs_url=None,  # these pages would load their scripts from elsewhere
        redoc_url=None,
    )
    app.state.service = service
    add_fault_handlers(app)
    add_state_endpoints(app, service)
    add_endpoints(app, service)
    add_client_endpoints(app, service)
    add_index_endpoints(app, service)
    add_page(app, page)
    dimensions = [one.model.dimension for one in service.offered]
    describe_service(app.openapi(), service.limits, service.names, dimensions)  # FastAPI keeps what it once described
    app.add_middleware(Guard, service=service, paths=Paths.of(app.routes, page), api_keys=api_keys, hosts=hosts)
    return app
