"""`nearer bench serve`: many clients at once, with dynamic batching and with each text by itself, in one run."""

from __future__ import annotations

import asyncio
import json
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from statistics import quantiles

from benchmarks.machine import measure_ceilings
from benchmarks.report import Report, Row, compared, new_report
from benchmarks.text import corpus_text
from nearer.distributed import local_device
from nearer.encoder import Encoder
from nearer.errors import TrainingError
from nearer.serve.metrics import resident_bytes

BATCHED, UNBATCHED = "dynamic batches", "each text by itself"
ALONE = ("--batch-texts", "1", "--batch-wait-ms", "0")
# Enough that none is sent twice while another copy of it waits: equal texts of a batch are computed once
TEXTS = 20_000
WARM_UP_SECONDS = 1.0
LOOK_EVERY = 0.2


@dataclass(frozen=True)
class ServeBench:
    """What to measure. texts: of each request; seconds: of each way."""

    model: str = "wiki-mini"
    pooling: str | None = None
    corpus: str | None = None
    clients: int = 64
    texts: int = 1
    seconds: float = 60.0
    batch_wait_ms: float | None = None
    precision: str = "float32"


@dataclass
class Load:
    """What the clients saw. latencies: seconds of each request that was answered; errors: what the others got."""

    seconds: float = 0.0
    latencies: list[float] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    resident: list[int] = field(default_factory=list)


def bench_serve(wanted: ServeBench, tell: Callable[[str], None] = lambda message: None) -> Report:
    """Measure, and report; `tell` gets a line at each stage."""
    device = local_device()
    pooling = wanted.pooling or ("mean" if wanted.model == "wiki-mini" else None)
    tokenizer = Encoder.load(wanted.model, pooling=pooling, device="cpu").tokenizer
    text = corpus_text(wanted.corpus, TEXTS, tokenizer)
    text.check_enough(wanted.clients * wanted.texts, "--clients")
    arguments = ["--precision", wanted.precision, *(["--pooling", pooling] if pooling else [])]
    wait = [] if wanted.batch_wait_ms is None else ["--batch-wait-ms", str(wanted.batch_wait_ms)]
    rows = []
    for way, more in ((BATCHED, wait), (UNBATCHED, ALONE)):
        tell(f"{way}: {wanted.clients} clients for {wanted.seconds:g} s")
        with served(wanted.model, [*arguments, *more]) as (process, port):
            bodies = request_bodies(text.sentences, wanted.texts, "served")
            asyncio.run(_load(port, bodies, wanted.clients, WARM_UP_SECONDS))
            load = asyncio.run(_load(port, bodies, wanted.clients, wanted.seconds, process.pid))
        rows.append(_row(way, load, wanted))
    tell("the machine's limits")
    notes = [
        f"model: {wanted.model} in {wanted.precision}; text: {text.described}",
        f"{wanted.texts} texts a request, vectors as base64",
        "clients and service share the machine; each client sends its next request when it has its answer",
    ]
    return new_report("serve", device, measure_ceilings(device), asdict(wanted), compared(rows, [UNBATCHED]), notes)


@contextmanager
def served(
    model: str, arguments: Sequence[str], said: list[str] | None = None
) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """A service in a process of its own, and its port. Told to end at the end, it has to do so in order.

    said: gets the lines that it prints.
    """
    command = [sys.executable, "-m", "nearer.cli.main", "serve", model, "--name", "served", "--port", "0", *arguments]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    lines: list[str] = [] if said is None else said
    assert process.stderr is not None
    coming = process.stderr
    # read all the time: a service whose words nobody reads waits for that
    reading = threading.Thread(target=lambda: lines.extend(coming), daemon=True)
    try:
        for line in coming:
            lines.append(line)
            if found := re.search(r" at http://\S+:(\d+) ", line):
                reading.start()
                yield process, int(found[1])
                break
        else:
            raise TrainingError(f"the service did not start: {' '.join(lines).strip()}")
        process.send_signal(signal.SIGTERM)
        process.wait(timeout=60)
        reading.join()
        if process.returncode != 0:
            raise TrainingError(f"the service ended with code {process.returncode}: {' '.join(lines).strip()[-400:]}")
    finally:
        process.kill()
        process.wait()


def request_bodies(sentences: Sequence[str], texts: int, model: str) -> list[bytes]:
    groups = [sentences[start : start + texts] for start in range(0, len(sentences) - texts + 1, texts)]
    return [
        json.dumps({"model": model, "input": list(group), "encoding_format": "base64"}).encode() for group in groups
    ]


async def _load(port: int, bodies: Sequence[bytes], clients: int, seconds: float, process: int | None = None) -> Load:
    """Each client sends one request after another until the time is over; those under way are waited for."""
    load = Load()
    began = time.perf_counter()
    coming = iter(range(10**12))

    async def client() -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        while time.perf_counter() - began < seconds:
            body = bodies[next(coming) % len(bodies)]
            sent = time.perf_counter()
            status, answer = await post(reader, writer, body)
            if status == 200 and answer.endswith(b"}"):
                load.latencies.append(time.perf_counter() - sent)
            else:
                load.errors.append(f"{status} {answer[:100]!r}")
        writer.close()

    async def look() -> None:
        while process is not None:
            load.resident.append(resident_bytes(process) or 0)
            await asyncio.sleep(LOOK_EVERY)

    looking = asyncio.ensure_future(look())
    for ended in await asyncio.gather(*(client() for _ in range(clients)), return_exceptions=True):
        if ended is not None:
            load.errors.append(repr(ended))
    load.seconds = time.perf_counter() - began
    looking.cancel()
    return load


async def post(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, body: bytes) -> tuple[int, bytes]:
    """Status and body of the answer. By hand: a client library would take more of the machine than the service."""
    writer.write(
        b"POST /v1/embeddings HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\n"
        b"content-length: %d\r\n\r\n%b" % (len(body), body)
    )
    head = await reader.readuntil(b"\r\n\r\n")
    length = re.search(rb"content-length: (\d+)", head, re.IGNORECASE)
    return int(head[9:12]), await reader.readexactly(int(length[1]) if length else 0)


def _row(way: str, load: Load, wanted: ServeBench) -> Row:
    count = len(load.latencies)
    subject = f"serving {wanted.clients} clients, time a text"
    errors = f"{len(load.errors)} errors" + (f" ({load.errors[0]})" if load.errors else "")
    if count < 2:
        return Row(subject, way, note=errors)
    hundredths = quantiles(load.latencies, n=100)
    half, most = (1000 * hundredths[percent] for percent in (49, 98))
    first, peak = load.resident[0], max(load.resident)
    note = (
        f"{count:,} requests in {load.seconds:.1f} s, {errors}; answered within {half:.0f} ms (half), {most:.0f} ms "
        f"(99 %); memory {first / 2**20:.0f} MiB at the start, {load.resident[-1] / 2**20:.0f} at the end"
    )
    seconds = load.seconds / (count * wanted.texts)
    return Row(subject, way, seconds, batch=1, memory=max(0, peak - first), note=note)
