"""Counts of the service for Prometheus, and the memory of a process."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

CONTENT_TYPE = "text/plain; version=0.0.4"
SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
TEXTS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)

COUNTERS = {
    "nearer_refused_requests_total": "Requests refused because too much was waiting.",
    "nearer_refused_connections_total": "Connections refused because too many were open.",
    "nearer_untaken_answers_total": "Answers cut off because the client did not take them in time.",
    "nearer_abandoned_requests_total": "Requests whose client went away before the model came to them.",
    "nearer_texts_total": "Texts encoded.",
    "nearer_tokens_total": "Tokens encoded.",
    "nearer_cut_texts_total": "Texts longer than the model reads, of which the end was left out.",
    "nearer_model_seconds_total": "Seconds in which the model was at work.",
}


class Metrics:
    """Any thread may count. `text` is what `/metrics` answers. Each service has a registry of its own."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        registry = self.registry = CollectorRegistry()
        self._requests = Counter(
            "nearer_requests_total", "Requests by path and status.", ["path", "status"], registry=registry
        )
        self._counters = {name: Counter(name, said, registry=registry) for name, said in COUNTERS.items()}
        self._request_seconds = Histogram(
            "nearer_request_seconds",
            "Seconds from a request's head to the end of its answer.",
            buckets=SECONDS,
            registry=registry,
        )
        self._batch_texts = Histogram(
            "nearer_batch_texts", "Texts that were encoded together.", buckets=TEXTS, registry=registry
        )
        self._waiting = Gauge("nearer_waiting_texts", "Texts that wait for the model now.", registry=registry)
        self._open = Gauge("nearer_open_requests", "Requests that are being answered now.", registry=registry)
        if resident_bytes() is not None:
            resident = Gauge("nearer_resident_bytes", "Memory of the process.", registry=registry)
            resident.set_function(lambda: resident_bytes() or 0)

    def count(self, name: str, amount: float = 1) -> None:
        self._counters[name].inc(amount)

    def count_request(self, path: str, status: int, seconds: float) -> None:
        """path: one of the service's own, never a client's words: each is kept for good."""
        self._requests.labels(path, status).inc()
        self._request_seconds.observe(seconds)

    def count_batch(self, texts: int, tokens: int, cut: int, seconds: float) -> None:
        self._batch_texts.observe(texts)
        self.count("nearer_texts_total", texts)
        self.count("nearer_tokens_total", tokens)
        self.count("nearer_cut_texts_total", cut)
        self.count("nearer_model_seconds_total", seconds)

    def text(self, *, waiting: int, open_requests: int) -> str:
        """In Prometheus' text format (`CONTENT_TYPE`)."""
        with self._lock:  # the gauges are of one moment
            self._waiting.set(waiting)
            self._open.set(open_requests)
            return generate_latest(_WithoutTimes(self.registry)).decode("utf-8")


class _WithoutTimes(Collector):
    """A registry without the times at which its counters were made: they would double what Prometheus keeps."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._registry = registry

    def collect(self) -> Iterator[Metric]:
        for metric in self._registry.collect():
            metric.samples = [sample for sample in metric.samples if not sample.name.endswith("_created")]
            yield metric


def resident_bytes(process: int | str = "self") -> int | None:
    """Memory that a process holds; not known where there is no /proc."""
    try:
        return int(Path(f"/proc/{process}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, IndexError, ValueError):
        return None


def peak_bytes(process: int | str = "self") -> int | None:
    """The most memory that a process has held; not known where there is no /proc."""
    try:
        status = Path(f"/proc/{process}/status").read_text()
        return int(status.partition("VmHWM:")[2].split()[0]) * 1024
    except (OSError, IndexError, ValueError):
        return None
