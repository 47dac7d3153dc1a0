"""The service as an application: endpoints over one model that a single thread owns."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from nearer.errors import InputError
from nearer.extras import require
from nearer.serve.batching import Batcher, Finish
from nearer.serve.description import describe_limits
from nearer.serve.guard import Guard
from nearer.serve.limits import Limits, Refusal, overloaded
from nearer.serve.metrics import Metrics
from nearer.serve.served import ServedModel

if TYPE_CHECKING:
    from fastapi import FastAPI, Request

    from nearer.search import SearchIndex

logger = logging.getLogger("nearer.serve")
# A client that went away reads no status; the log and the counts do (nginx' number for it).
CLIENT_GONE = 499


class Service:
    """What the endpoints share: the model behind its queue, and how a request waits for it."""

    def __init__(self, model: ServedModel, limits: Limits, index: SearchIndex | None = None) -> None:
        self.model = model
        self.limits = limits
        self.index = index
        self.metrics = Metrics()
        self.batcher = Batcher(model, limits, self.metrics)
        self.started = int(time.time())
        self.open_requests = 0
        self.searching = asyncio.Semaphore(2)

    def check_name(self, name: str | None) -> None:
        """No other model is ever looked for, whatever a request calls it."""
        if name is not None and name != self.model.name:
            raise Refusal(
                404,
                f"model: {name[:100]!r} is not served here; served is {self.model.name!r}.",
                code="model_not_found",
                param="model",
            )

    async def ask(self, request: Request, texts: list[str], finish: Finish) -> Any:
        """What `finish` makes of the texts' vectors. Nothing is computed for a client that has gone."""
        answer = self.batcher.submit(texts, finish)
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
    api_key: str | None = None,
    hosts: Collection[str] | None = None,
) -> FastAPI:
    """index: makes `/v1/search` answer. api_key: asked of every request except `/health`. hosts: see `Guard`."""
    require("fastapi", "serve", "the service")
    from fastapi import FastAPI

    import nearer
    from nearer.serve.endpoints import add_endpoints
    from nearer.serve.faults import add_fault_handlers

    service = Service(model, limits or Limits(), index)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        service.batcher.open()
        yield
        await asyncio.to_thread(service.batcher.close)

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
    add_endpoints(app, service)
    describe_limits(app.openapi(), service.limits, model.dimension)  # FastAPI keeps what it once described
    paths = [path for route in app.routes if (path := getattr(route, "path", None))]
    app.add_middleware(
        Guard,
        service=service,
        paths=paths,
        api_key=api_key,
        hosts=hosts,
    )
    return app
