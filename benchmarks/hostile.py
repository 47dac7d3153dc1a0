"""Clients that mean no good, for `nearer bench load`: each kind is one thing that a service must bear."""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import re
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

KIB = 1024
# Bytes of headers that one sends unless it is stopped
GIANT = 300 * KIB * KIB


@dataclass(frozen=True)
class Caller:
    """Who calls: from an address of this machine, with a key. persistence: seconds that a hostile one goes on."""

    port: int
    address: str
    key: str
    persistence: float = 60.0

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection("127.0.0.1", self.port, local_addr=(self.address, 0))

    def head(self, path: str, length: int | None, *, key: bool = True, method: str = "POST") -> bytes:
        """length: of the body; None sends it in chunks."""
        lines = [f"{method} {path} HTTP/1.1", "host: 127.0.0.1", "content-type: application/json", "connection: close"]
        lines += [f"authorization: Bearer {self.key}"] if key else []
        lines += ["transfer-encoding: chunked" if length is None else f"content-length: {length}", "", ""]
        return "\r\n".join(lines).encode()


async def read_status(reader: asyncio.StreamReader) -> int:
    """Of an answer that is read to its end; what is cut off is an error."""
    head = await reader.readuntil(b"\r\n\r\n")
    found = re.search(rb"content-length: (\d+)", head, re.IGNORECASE)
    if found is not None:
        await reader.readexactly(int(found[1]))
    elif re.search(rb"transfer-encoding: chunked", head, re.IGNORECASE):
        while size := int(await reader.readline(), 16):
            await reader.readexactly(size + 2)
    return int(head[9:12])


Writer = asyncio.StreamWriter
Sends = Callable[[Caller, Writer, Sequence[str]], Awaitable[None]]


async def _drip(writer: Writer, piece: bytes, every: float, most: int = 10**9) -> None:
    for _ in range(most):
        writer.write(piece)
        await writer.drain()
        await asyncio.sleep(every)


async def endless_body(caller: Caller, writer: Writer, texts: Sequence[str]) -> None:
    writer.write(caller.head("/v1/embeddings", None))
    await _drip(writer, b"400\r\n" + b" " * KIB + b"\r\n", 0.1)


async def endless_body_without_key(caller: Caller, writer: Writer, texts: Sequence[str]) -> None:
    writer.write(caller.head("/v1/embeddings", 2 * KIB * KIB, key=False))
    await _drip(writer, b" " * 16 * KIB, 0.05)


async def endless_body_of_health(caller: Caller, writer: Writer, texts: Sequence[str]) -> None:
    writer.write(caller.head("/health", None, key=False))
    await _drip(writer, b"400\r\n" + b" " * KIB + b"\r\n", 0.1)


async def dripping_head(caller: Caller, writer: Writer, texts: Sequence[str]) -> None:
    writer.write(b"GET /health HTTP/1.1\r\n")
    await _drip(writer, b"x: y\r\n", 0.5)


async def giant_headers(caller: Caller, writer: Writer, texts: Sequence[str]) -> None:
    writer.write(b"GET /health HTTP/1.1\r\nx: ")
    await _drip(writer, b"x" * 64 * KIB, 0, GIANT // (64 * KIB))


async def many_headers(caller: Caller, writer: Writer, texts: Sequence[str]) -> None:
    writer.write(b"GET /health HTTP/1.1\r\n")
    await _drip(writer, b"x: y\r\n" * 1000, 0, 1000)


async def huge_without_key(caller: Caller, writer: Writer, texts: Sequence[str]) -> None:
    writer.write(caller.head("/v1/embeddings", 2 * KIB * KIB, key=False) + b" " * 2 * KIB * KIB)
    await writer.drain()


async def huge_with_key(caller: Caller, writer: Writer, texts: Sequence[str]) -> None:
    """As many texts as are taken, and an answer many times as long."""
    body = json.dumps({"input": [*texts[:2048]], "model": "served"}).encode()
    writer.write(caller.head("/v1/embeddings", len(body)) + body)
    await writer.drain()


async def malformed_with_key(caller: Caller, writer: Writer, texts: Sequence[str]) -> None:
    """Hundreds of thousands of items, each of them wrong."""
    body = b'{"model": "served", "input": [' + b"[]," * 600_000 + b"[]]}"
    writer.write(caller.head("/v1/embeddings", len(body)) + body)
    await writer.drain()


async def long_queries(caller: Caller, writer: Writer, texts: Sequence[str]) -> None:
    """400 queries of 2 500 characters: 1 MB, and hours of a model's work if nobody bounds it."""
    text = " ".join(texts[:400])
    queries = [text[start : start + 2500] for start in range(0, 400 * 7, 7)]
    body = json.dumps({"query": queries, "k": 100}).encode()
    writer.write(caller.head("/v1/search", len(body)) + body)
    await writer.drain()


async def gone_at_once(caller: Caller, writer: Writer, texts: Sequence[str]) -> None:
    body = json.dumps({"input": [*texts[:256]], "model": "served"}).encode()
    writer.write(caller.head("/v1/embeddings", len(body)) + body)
    await writer.drain()
    writer.close()


async def unread_answer(caller: Caller, writer: Writer, texts: Sequence[str]) -> None:
    body = json.dumps({"input": [*texts[:512]], "model": "served"}).encode()
    writer.write(caller.head("/v1/embeddings", len(body)) + body)
    await writer.drain()
    await asyncio.sleep(caller.persistence / 5)


KINDS: tuple[Sends, ...] = (
    endless_body,
    endless_body_without_key,
    endless_body_of_health,
    dripping_head,
    giant_headers,
    many_headers,
    huge_without_key,
    huge_with_key,
    malformed_with_key,
    long_queries,
    gone_at_once,
    unread_answer,
)


def attack_from(
    results: Any, callers: Sequence[Caller], texts: Sequence[str], rate: float, seconds: float, seed: int
) -> None:
    """A process that attacks. results: a queue that gets word that it is ready, and then the outcomes."""
    results.put(None)
    results.put(asyncio.run(attack(callers, texts, rate, seconds, seed)))


async def attack(
    callers: Sequence[Caller], texts: Sequence[str], rate: float, seconds: float, seed: int
) -> Counter[str]:
    """What became of each, as "kind: outcome". They arrive by a seeded Poisson clock, the kinds in turn."""
    outcomes: Counter[str] = Counter()
    draw, tasks = random.Random(seed), []
    began, planned, number = time.perf_counter(), 0.0, 0

    async def one(caller: Caller, kind: Sends) -> None:
        outcome = "cut off"
        with contextlib.suppress(OSError, EOFError, TimeoutError, asyncio.LimitOverrunError):
            outcome = await _outcome(caller, kind, texts)
        outcomes[f"{kind.__name__}: {outcome}"] += 1

    while (planned := planned + draw.expovariate(rate)) < seconds:
        await asyncio.sleep(max(0.0, began + planned - time.perf_counter()))
        tasks.append(asyncio.create_task(one(callers[number % len(callers)], KINDS[number % len(KINDS)])))
        number += 1
    await asyncio.gather(*tasks)
    return outcomes


async def _outcome(caller: Caller, kind: Sends, texts: Sequence[str]) -> str:
    reader, writer = await caller.connect()
    try:
        async with asyncio.timeout(caller.persistence):
            sending = asyncio.create_task(_sent(kind, caller, writer, texts))
            try:
                if kind in (unread_answer, gone_at_once):
                    await sending
                    return "left"
                return str(await read_status(reader))
            finally:
                sending.cancel()
    except TimeoutError:
        return "left"  # it was not answered yet, and waits no longer
    finally:
        writer.close()


async def _sent(kind: Sends, caller: Caller, writer: Writer, texts: Sequence[str]) -> None:
    """What the service does not want to read any more is no error: its answer says why."""
    with contextlib.suppress(OSError):
        await kind(caller, writer, texts)
