"""Counts of the service in Prometheus' text format."""

from __future__ import annotations

import os
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
TEXTS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)

HELP = {
    "nearer_requests_total": "Requests by path and status.",
    "nearer_refused_requests_total": "Requests refused because too much was waiting.",
    "nearer_refused_connections_total": "Connections refused because too many were open.",
    "nearer_untaken_answers_total": "Answers cut off because the client did not take them in time.",
    "nearer_abandoned_requests_total": "Requests whose client went away before the model came to them.",
    "nearer_texts_total": "Texts encoded.",
    "nearer_tokens_total": "Tokens encoded.",
    "nearer_cut_texts_total": "Texts longer than the model reads, of which the end was left out.",
    "nearer_model_seconds_total": "Seconds in which the model was at work.",
    "nearer_request_seconds": "Seconds from a request's head to the end of its answer.",
    "nearer_batch_texts": "Texts that were encoded together.",
    "nearer_waiting_texts": "Texts that wait for the model now.",
    "nearer_open_requests": "Requests that are being answered now.",
    "nearer_resident_bytes": "Memory of the process.",
}


class Histogram:
    """Cumulative counts of values up to each bound."""

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.sum = 0.0

    def add(self, value: float) -> None:
        place = next((n for n, bound in enumerate(self.bounds) if value <= bound), len(self.bounds))
        self.counts[place] += 1
        self.sum += value

    def lines(self, name: str) -> Iterator[str]:
        total = 0
        for bound, count in zip((*self.bounds, "+Inf"), self.counts, strict=True):
            total += count
            yield f'{name}_bucket{{le="{bound}"}} {total}'
        yield f"{name}_sum {self.sum:.6f}"
        yield f"{name}_count {total}"


class Metrics:
    """Any thread may count; `text` is what `/metrics` answers."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: Counter[str] = Counter(
            {name: 0 for name in HELP if name.endswith("_total") and name != "nearer_requests_total"}
        )
        self._requests: Counter[tuple[str, int]] = Counter()
        self._request_seconds = Histogram(SECONDS)
        self._batch_texts = Histogram(TEXTS)

    def count(self, name: str, amount: float = 1) -> None:
        with self._lock:
            self._counts[name] += amount  # type: ignore[assignment]

    def request(self, path: str, status: int, seconds: float) -> None:
        """path: one of the service's own, never a client's words: each is kept for good."""
        with self._lock:
            self._requests[path, status] += 1
            self._request_seconds.add(seconds)

    def batch(self, texts: int, tokens: int, cut: int, seconds: float) -> None:
        with self._lock:
            self._batch_texts.add(texts)
            self._counts["nearer_texts_total"] += texts
            self._counts["nearer_tokens_total"] += tokens
            self._counts["nearer_cut_texts_total"] += cut
            self._counts["nearer_model_seconds_total"] += seconds  # type: ignore[assignment]

    def text(self, *, waiting: int, open_requests: int) -> str:
        with self._lock:
            lines = [*self._lines(waiting, open_requests)]
        return "\n".join(lines) + "\n"

    def _lines(self, waiting: int, open_requests: int) -> Iterator[str]:
        yield from _head("nearer_requests_total", "counter")
        for (path, status), count in sorted(self._requests.items()):
            yield f'nearer_requests_total{{path="{path}",status="{status}"}} {count}'
        for name, value in self._counts.items():
            yield from _head(name, "counter")
            yield f"{name} {value:.6f}" if isinstance(value, float) else f"{name} {value}"
        for name, histogram in (
            ("nearer_request_seconds", self._request_seconds),
            ("nearer_batch_texts", self._batch_texts),
        ):
            yield from _head(name, "histogram")
            yield from histogram.lines(name)
        gauges = {"nearer_waiting_texts": waiting, "nearer_open_requests": open_requests}
        resident = resident_bytes()
        if resident is not None:
            gauges["nearer_resident_bytes"] = resident
        for name, value in gauges.items():
            yield from _head(name, "gauge")
            yield f"{name} {value}"


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


def _head(name: str, kind: str) -> Iterator[str]:
    yield f"# HELP {name} {HELP[name]}"
    yield f"# TYPE {name} {kind}"
