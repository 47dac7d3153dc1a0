"""Any server with OpenAI's chat API as an engine: vLLM, llama.cpp's server, Ollama, or OpenAI's own.

    engine = load_engine("http://127.0.0.1:8000/v1#qwen2.5-7b-instruct", batch=64)

Requests travel in an event loop of a thread of their own, `batch` of them at a time, so the server is busy while the
builder writes down what came back. What may pass is tried again after a wait that doubles (too many requests, errors of
the server, time-outs, broken answers, refused connections); what will not pass ends the work with one line. The API key
comes from the environment and goes nowhere but into the header of requests.
"""

from __future__ import annotations

import asyncio
import queue
import random
import re
import threading
from collections import Counter, deque
from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import numpy as np

from nearer.construct.engines.decoding import TokenSampling
from nearer.construct.engines.server_address import KEY, Server
from nearer.construct.requests import TURN, Generated, Request
from nearer.errors import ModelError, SettingError, first_line

if TYPE_CHECKING:
    import httpx

ATTEMPTS = 8
FIRST_WAIT, LONGEST_WAIT = 0.5, 30.0  # seconds between attempts; it doubles
LONGEST_ASKED_WAIT = 300.0  # what a server may ask for by Retry-After
TIMEOUT = 300.0  # seconds in which an answer must begin: a busy server queues
PASSING = (408, 409, 425, 429, 500, 502, 503, 504, 529)
LONGEST_QUOTED = 200
_TOO_LONG = re.compile(r"context[ _](?:length|size|window)|maximum context|too many tokens|prompt is too long", re.I)
_THOUGHT = re.compile(r"^\s*<think>.*?(?:</think>|$)", re.S)


class _Passing(Exception):
    """A failure that may pass. wait: what the server asks for, in seconds."""

    def __init__(self, what: str, detail: str = "", wait: float | None = None) -> None:
        super().__init__(f"{what} ({detail})" if detail else what)
        self.what, self.wait = what, wait


class ChatServerEngine:
    """batch: requests in flight. troubles: what was tried again, by its kind, since the engine was made."""

    def __init__(
        self,
        server: Server,
        choosing: TokenSampling,
        batch: int,
        max_new_tokens: int,
        *,
        attempts: int = ATTEMPTS,
        first_wait: float = FIRST_WAIT,
        timeout: float = TIMEOUT,
    ) -> None:
        self.server, self.choosing, self.batch, self.max_new_tokens = server, choosing, batch, max_new_tokens
        self.attempts, self.first_wait, self.timeout = attempts, first_wait, timeout
        self.troubles: Counter[str] = Counter()
        self.model = self._find_model()

    def identity(self) -> dict[str, str]:
        """The server's address is no part of it: tomorrow the same model may stand elsewhere."""
        return {
            "engine": "chat server",
            "model": self.model,
            "choosing": self.choosing.described(),
            "max_new_tokens": str(self.max_new_tokens),
        }

    def answer(self, requests: deque[Request]) -> Iterator[Generated]:
        with _Loop() as loop:
            client = self._client()
            flying = 0
            try:
                while flying or requests:
                    while requests and flying < self.batch:
                        loop.start(self._answer(client, requests.popleft()))
                        flying += 1
                    found = loop.ended.get()
                    flying -= 1
                    if isinstance(found, BaseException):
                        raise found
                    yield found
            finally:
                loop.finish(client.aclose())

    async def _answer(self, client: httpx.AsyncClient, request: Request) -> Generated:
        if request.away_from is not None and request.guidance:
            raise SettingError(
                f"{self.server.base}: directional decoding needs the scores of all tokens, which a chat server does "
                "not give; name a model folder or GGUF file, or take another method (step-by-step, single-step)."
            )
        body = self._body(request)
        for attempt in range(1, self.attempts + 1):
            try:
                return self._read(request, await self._post(client, body))
            except _Passing as failure:
                self.troubles[failure.what] += 1
                if attempt == self.attempts:
                    raise self._error(
                        f"no answer after {attempt} attempts, the last failed by: {self._quoted(failure)}; what is "
                        "finished is kept, and the same command goes on"
                    ) from None
                await asyncio.sleep(self._wait(attempt, failure.wait))
        raise AssertionError("unreachable")

    def _wait(self, attempt: int, asked: float | None) -> float:
        """Not all at the same time: those who were turned away together would come back together."""
        own: float = min(self.first_wait * 2 ** (attempt - 1), LONGEST_WAIT) * random.uniform(0.5, 1)
        return own if asked is None else max(own, min(asked, LONGEST_ASKED_WAIT))

    def _body(self, request: Request) -> dict[str, Any]:
        roles = ("user", "assistant")
        turns = [{"role": roles[number % 2], "content": turn} for number, turn in enumerate(request.prompt.split(TURN))]
        body: dict[str, Any] = {
            "model": self.model,
            "messages": turns,
            "max_tokens": request.max_new_tokens or self.max_new_tokens,
            "temperature": 0.0 if request.greedy else self.choosing.temperature,
            "stream": False,
        }
        if not (self.choosing.greedy or request.greedy):
            # as of the other engines, what is drawn follows from seed, number and step
            drawn = np.random.default_rng([self.choosing.seed, request.number, request.step]).integers(2**31)
            body |= {"top_p": self.choosing.top_p, "seed": int(drawn)}
        return body

    async def _post(self, client: httpx.AsyncClient, body: dict[str, Any]) -> httpx.Response:
        import httpx

        try:
            response = await client.post(f"{self.server.base}/chat/completions", json=body)
        except httpx.TimeoutException:
            raise _Passing("time-out", f"{self.timeout:g} s") from None
        except httpx.RequestError as error:
            raise _Passing(
                "connection refused" if isinstance(error, httpx.ConnectError) else "connection lost", first_line(error)
            ) from None
        if response.status_code in PASSING:
            raise _Passing(str(response.status_code), self._words(response), _retry_after(response))
        return response

    def _read(self, request: Request, response: httpx.Response) -> Generated:
        if response.status_code != 200:
            if response.status_code in (400, 413, 422) and _TOO_LONG.search(response.text):
                return Generated(request, "", 0, "no room")
            raise self._refusal(response)
        try:
            answer = response.json()
            choice = answer["choices"][0]
            text = choice["message"].get("content") or choice["message"].get("refusal") or ""
            if not isinstance(text, str):
                raise TypeError
            tokens = (answer.get("usage") or {}).get("completion_tokens")
        except (ValueError, LookupError, TypeError, AttributeError):
            raise _Passing("broken answer", self._words(response)) from None
        text = _THOUGHT.sub("", text).strip()
        whole = choice.get("finish_reason") != "length"
        if request.one_line and len(lines := text.splitlines()) > 1:
            text, whole = lines[0].rstrip(), True
        count = tokens if isinstance(tokens, int) else len(text.split())
        return Generated(request, text, count, "model" if whole else "limit")

    def _find_model(self) -> str:
        """As the server calls it; also finds out whether there is a server, before anything is built."""
        names = self._served()
        named = self.server.model
        if named is not None:
            if names and named not in names:
                raise self._error(f"has no model {named!r}; it has {_listed(names)}")
            return named
        if len(names) != 1:
            found = f"serves {_listed(names)}" if names else "does not say which models it has"
            raise self._error(f"{found}; name one behind a #, such as {self.server.base}#{(names or ['NAME'])[0]}")
        return names[0]

    def _served(self) -> list[str]:
        import httpx

        async def ask() -> httpx.Response:
            async with self._client() as client:
                return await client.get(f"{self.server.base}/models")

        for attempt in range(1, self.attempts + 1):
            with _Loop() as loop:
                loop.start(ask())
                response = loop.ended.get()
                if isinstance(response, httpx.TimeoutException):
                    raise self._error("does not answer (time-out)")
                if isinstance(response, httpx.RequestError):
                    raise self._error(
                        f"cannot be reached ({first_line(response)}); is the server running? Start it or correct this"
                    )
                if isinstance(response, BaseException):
                    raise response
                if response.status_code not in PASSING or attempt == self.attempts:
                    break
                self.troubles[str(response.status_code)] += 1  # such as 503 while it loads its model
                loop.finish(asyncio.sleep(self._wait(attempt, _retry_after(response))))
        if response.status_code == 404:
            return []  # some have no list
        if response.status_code != 200:
            raise self._refusal(response)
        try:
            return [str(one["id"]) for one in response.json()["data"]]
        except (ValueError, LookupError, TypeError):
            raise self._error("answers, but not as OpenAI's API does; is this the right address?") from None

    def _client(self) -> httpx.AsyncClient:
        import httpx

        headers = {} if self.server.key is None else {"Authorization": f"Bearer {self.server.key}"}
        return httpx.AsyncClient(
            headers=headers,
            timeout=httpx.Timeout(self.timeout, connect=min(self.timeout, 15.0), pool=None),
            limits=httpx.Limits(max_connections=self.batch, max_keepalive_connections=self.batch),
            verify=self.server.base.startswith("https"),  # else certificates would be loaded for nothing
            trust_env=not self.server.loopback,  # no proxy stands between us and ourselves
        )

    def _refusal(self, response: httpx.Response) -> ModelError:
        status = response.status_code
        mend = {
            401: f"; its key belongs into ${KEY}",
            403: f"; its key belongs into ${KEY}",
            404: "; is the path right?",
        }
        words = self._words(response)
        return self._error(f"answers {status}{f' ({words})' if words else ''}{mend.get(status, '')}")

    def _error(self, what: str) -> ModelError:
        return ModelError(f"{self.server.base}: {what}.")

    def _words(self, response: httpx.Response) -> str:
        """What the server says, in a line; the key, which some say again, left out."""
        try:
            error = response.json()["error"]
            words = error["message"] if isinstance(error, dict) else error
        except (ValueError, LookupError, TypeError):
            words = response.text
        return self._quoted(words)

    def _quoted(self, words: object) -> str:
        said = " ".join(str(words).split()).rstrip(".")
        if self.server.key is not None:
            said = said.replace(self.server.key, f"${KEY}")
        return said if len(said) <= LONGEST_QUOTED else said[: LONGEST_QUOTED - 1] + "…"


def _retry_after(response: httpx.Response) -> float | None:
    try:
        return max(0.0, float(response.headers["Retry-After"]))
    except (KeyError, ValueError):
        return None


def _listed(names: list[str]) -> str:
    return ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")


class _Loop:
    """An event loop in a thread of its own: also where the caller has one already, as notebooks do."""

    def __init__(self) -> None:
        self.ended: queue.SimpleQueue[Any] = queue.SimpleQueue()  # what coroutines returned or raised
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)

    def __enter__(self) -> _Loop:
        self._thread.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self.finish(self._cancel_all())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def start(self, coroutine: Any) -> None:
        async def run() -> None:
            try:
                self.ended.put(await coroutine)
            except Exception as error:
                self.ended.put(error)

        asyncio.run_coroutine_threadsafe(run(), self._loop)

    def finish(self, coroutine: Any) -> None:
        asyncio.run_coroutine_threadsafe(coroutine, self._loop).result()

    async def _cancel_all(self) -> None:
        others = [task for task in asyncio.all_tasks(self._loop) if task is not asyncio.current_task()]
        for task in others:
            task.cancel()
        with suppress(asyncio.CancelledError):
            await asyncio.gather(*others, return_exceptions=True)
