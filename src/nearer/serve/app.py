"""The service as an application: endpoints over one or two models, each owned by a single thread."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from nearer.errors import InputError
from nearer.extras import require
from nearer.serve.batching import Batcher
from nearer.serve.description import describe_service
from nearer.serve.guard import OPEN_PATHS, Guard
from nearer.serve.jobs import Finish
from nearer.serve.limits import Limits, Refusal, overloaded
from nearer.serve.metrics import Metrics
from nearer.serve.offered import Offered
from nearer.serve.once import Once
from nearer.serve.served import ServedModel
from nearer.serve.token_ids import TokenDecoder

if TYPE_CHECKING:
    from fastapi import FastAPI, Request

    from nearer.search import SearchIndex

logger = logging.getLogger("nearer.serve")
# A client that went away reads no status; the log and the counts do (nginx' number for it).
CLIENT_GONE = 499
T = TypeVar("T")


class Service:
    """What the endpoints share: the models behind their queues, and how a request waits for them."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.metrics = Metrics()
        self.token_decoder = TokenDecoder()
        self.offered: list[Offered] = []
        self.started = int(time.time())
        self.open_requests = 0
        self.searching = asyncio.Semaphore(2)

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
        for one in self.offered:
            one.open()

    def close(self) -> None:
        for one in self.offered:
            one.close()

    async def ask(self, request: Request, batcher: Batcher, texts: list[str], finish: Finish) -> Any:
        """What `finish` makes of the texts' vectors. Nothing is computed for a client that has gone."""
        return await self.wait(request, batcher.submit(texts, finish))

    async def ask_once(self, request: Request, once: Once[T]) -> T:
        """What is worked out once; it goes on when this client has gone or has waited too long."""
        found: T = await self.wait(request, asyncio.wrap_future(once.ask()))
        return found

    async def wait(self, request: Request, answer: asyncio.Future[Any]) -> Any:
        gone = asyncio.ensure_future(_gone(request))
        try:
            await asyncio.wait({answer, gone}, timeout=self.limits.timeout, return_when=asyncio.FIRST_COMPLETED)
            if answer.done():
                return answer.result()
            if gone.done():
                raise Refusal(CLIENT_GONE, "The client went away.", code="client_gone")
            raise overloaded(f"No answer within {self.limits.timeout:g} seconds; try again later.")
        except InputError as error:
            raise Refusal(422, str(error), code="invalid_value") from None
        finally:
            answer.cancel()
            gone.cancel()


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
    api_key: str | None = None,
    hosts: Collection[str] | None = None,
) -> FastAPI:
    """index: makes `/v1/search`, the map and the geometry answer. beside, beside_index: a second model, with a queue
    and an index of its own. api_key: asked of every request except `/health` and the page. hosts: see `Guard`."""
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
    paths = [path for route in app.routes if (path := getattr(route, "path", None))]
    app.add_middleware(
        Guard,
        service=service,
        paths=paths,
        open_paths=OPEN_PATHS | page.keys(),
        api_key=api_key,
        hosts=hosts,
    )
    return app
