"""`nearer bench load`: what honest clients notice of hostile ones. An open loop, against a service of its own process.

Requests arrive by a seeded Poisson clock, whatever becomes of those before, and their time counts from the arrival
that was planned: a service that stalls is not asked less.
"""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import random
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.hostile import Caller, attack_from, read_status
from benchmarks.machine import measure_ceilings
from benchmarks.report import Report, Row, new_report
from benchmarks.serve import served
from benchmarks.text import Text, corpus_text
from nearer.distributed import local_device
from nearer.encoder import Encoder
from nearer.search import SearchIndex
from nearer.serve.limits import MIB, Limits
from nearer.serve.metrics import peak_bytes

ALONE, BESIDE = "honest clients alone", "beside hostile clients"
CLIENTS = 20
TEXTS, INDEXED = 20_000, 2000
WARM_UP_SECONDS = 2.0
# Seconds after which a request counts as unanswered: more than the service takes for any
PATIENCE = 120.0


@dataclass(frozen=True)
class LoadBench:
    """rate: honest requests a second. hostile: the share of hostile clients, and of hostile arrivals among all.

    seconds: beside hostile clients; alone_seconds: before that. persistence: see `Caller`.
    arguments: more options of `nearer serve`.
    """

    model: str = "wiki-mini"
    pooling: str | None = None
    corpus: str | None = None
    rate: float = 10.0
    hostile: float = 0.2
    seconds: float = 600.0
    alone_seconds: float = 300.0
    seed: int = 0
    persistence: float = 60.0
    arguments: tuple[str, ...] = ()


@dataclass
class Seen:
    """What honest clients saw: seconds of each answer, and what became of the others. peak: the service's memory."""

    latencies: list[float] = field(default_factory=list)
    refused: Counter[str] = field(default_factory=Counter)
    unanswered: Counter[str] = field(default_factory=Counter)
    hostile: Counter[str] = field(default_factory=Counter)
    peak: int = 0

    def within(self, share: float) -> float:
        """Seconds in which this share of the answers came."""
        ordered = sorted(self.latencies)
        return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else float("nan")


@dataclass
class Outcome:
    """limit: what the memory may grow by, by the service's formula. said: by the service when it ended."""

    alone: Seen
    beside: Seen
    limit: int
    said: str


def bench_load(wanted: LoadBench, tell: Callable[[str], None] = lambda message: None) -> Report:
    """Measure, and report; `tell` gets a line at each stage."""
    device = local_device()
    text = bench_text(wanted)
    outcome = load(wanted, text, tell)
    tell("the machine's limits")
    alone, beside = outcome.alone, outcome.beside
    notes = [
        f"model: {wanted.model}; text: {text.described}; {wanted.rate:g} honest requests a second of "
        f"{CLIENTS - hostile_clients(wanted)} clients: 70 % one text, 10 % each 16 texts, reranking of 16, search",
        f"99 % answered within {beside.within(0.99) / alone.within(0.99):.2f} times the seconds without hostile ones",
        f"memory at the peak: {alone.peak / MIB:.0f} MiB, then {beside.peak / MIB:.0f}; "
        f"the formula allows {(alone.peak + outcome.limit) / MIB:.0f}",
        f"hostile ({hostile_clients(wanted)} of {CLIENTS} clients, {wanted.hostile:.0%} of all arrivals): "
        + "; ".join(f"{name} {count}" for name, count in sorted(beside.hostile.items())),
        f"the service's last word: {outcome.said}",
    ]
    rows = [_row(ALONE, alone), _row(BESIDE, beside)]
    return new_report("load", device, measure_ceilings(device), asdict(wanted), rows, notes)


def bench_text(wanted: LoadBench) -> Text:
    tokenizer = Encoder.load(wanted.model, pooling=_pooling(wanted), device="cpu").tokenizer
    return corpus_text(wanted.corpus, TEXTS, tokenizer)


def load(wanted: LoadBench, text: Text, tell: Callable[[str], None] = lambda message: None) -> Outcome:
    """Both phases against one service, which has an index and asks for a key: each client has one of its own."""
    pooling = _pooling(wanted)
    with tempfile.TemporaryDirectory() as folder:
        index = Path(folder) / "index"
        tell(f"an index of {INDEXED:,} sentences")
        options: dict[str, Any] = {"pooling": pooling} if pooling else {}
        SearchIndex.build(wanted.model, text.sentences[:INDEXED], index, **options)
        keys = [f"key-{number}" for number in range(CLIENTS)]
        (Path(folder) / "keys").write_text("\n".join(keys), encoding="utf-8")
        arguments = ["--index", str(index), "--api-key-file", str(Path(folder) / "keys"), *wanted.arguments]
        arguments += ["--pooling", pooling] if pooling else []
        said: list[str] = []
        with served(wanted.model, arguments, said) as (process, port):
            callers = [
                Caller(port, f"127.0.1.{number + 1}", key, wanted.persistence) for number, key in enumerate(keys)
            ]
            hostile, honest = callers[: hostile_clients(wanted)], callers[hostile_clients(wanted) :]
            asyncio.run(_ask(honest, text.sentences, wanted.rate, WARM_UP_SECONDS, wanted.seed + 1))
            tell(f"{ALONE}: {wanted.alone_seconds:g} s")
            alone = asyncio.run(_ask(honest, text.sentences, wanted.rate, wanted.alone_seconds, wanted.seed))
            alone.peak = peak_bytes(process.pid) or 0
            tell(f"{BESIDE}: {wanted.seconds:g} s")
            beside = _beside(wanted, honest, hostile, text.sentences)
            beside.peak = peak_bytes(process.pid) or 0
    return Outcome(alone, beside, Limits().memory, said[-1].strip() if said else "")


def hostile_clients(wanted: LoadBench) -> int:
    return max(1, round(CLIENTS * wanted.hostile))


def _pooling(wanted: LoadBench) -> str | None:
    return wanted.pooling or ("mean" if wanted.model == "wiki-mini" else None)


def _beside(wanted: LoadBench, honest: Sequence[Caller], hostile: Sequence[Caller], texts: Sequence[str]) -> Seen:
    """Hostile clients are a process of their own, so that they do not delay the clocks of the honest ones."""
    context = multiprocessing.get_context("spawn")
    results: Any = context.SimpleQueue()
    rate = wanted.rate * wanted.hostile / (1 - wanted.hostile)
    arguments = (results, hostile, list(texts[:4096]), rate, wanted.seconds, wanted.seed)
    process = context.Process(target=attack_from, args=arguments, daemon=True)
    process.start()
    try:
        results.get()  # it is ready
        seen = asyncio.run(_ask(honest, texts, wanted.rate, wanted.seconds, wanted.seed))
        seen.hostile = results.get()
        process.join()
    finally:
        process.kill()
    return seen


async def _ask(callers: Sequence[Caller], texts: Sequence[str], rate: float, seconds: float, seed: int) -> Seen:
    seen, draw, tasks = Seen(), random.Random(seed), []
    began, planned = time.perf_counter(), 0.0

    async def one(caller: Caller, path: str, body: bytes, arrival: float) -> None:
        try:
            async with asyncio.timeout(PATIENCE):
                reader, writer = await caller.connect()
                try:
                    writer.write(caller.head(path, len(body)) + body)
                    status = await read_status(reader)
                finally:
                    writer.close()
        except (OSError, EOFError, TimeoutError) as error:
            seen.unanswered[f"{path} {type(error).__name__}"] += 1
            return
        if status == 200:
            seen.latencies.append(time.perf_counter() - began - arrival)
        else:
            seen.refused[f"{path} {status}"] += 1

    while (planned := planned + draw.expovariate(rate)) < seconds:
        request = _request(draw, texts)
        await asyncio.sleep(max(0.0, began + planned - time.perf_counter()))
        tasks.append(asyncio.create_task(one(draw.choice(callers), *request, planned)))
    await asyncio.gather(*tasks)
    return seen


def _request(draw: random.Random, texts: Sequence[str]) -> tuple[str, bytes]:
    kind, some = draw.random(), draw.sample(texts, 17)
    body: dict[str, Any]
    if kind < 0.7:
        path, body = "/v1/embeddings", {"input": some[0], "model": "served"}
    elif kind < 0.8:
        path, body = "/v1/embeddings", {"input": some[:16], "model": "served"}
    elif kind < 0.9:
        path, body = "/v1/rerank", {"query": some[0], "documents": some[1:]}
    else:
        path, body = "/v1/search", {"query": some[0], "k": 10}
    return path, json.dumps(body).encode()


def _row(what: str, seen: Seen) -> Row:
    subject = "99 % of honest requests answered within"
    counts = f"{len(seen.latencies):,} answered, {seen.refused.total()} refused, {seen.unanswered.total()} unanswered"
    others = [f"{name} {count}" for name, count in (seen.refused + seen.unanswered).most_common(3)]
    note = f"{counts}{' (' + ', '.join(others) + ')' if others else ''}; half within {1000 * seen.within(0.5):.0f} ms"
    if not seen.latencies:
        return Row(subject, what, note=note)
    return Row(subject, what, seen.within(0.99), memory=seen.peak, note=note)
