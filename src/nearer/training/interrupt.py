"""Ctrl-C during a run: finish the step at hand, save, and say how to go on. A second one ends at once."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class Interruption:
    asked = False


@contextmanager
def listening() -> Iterator[Interruption]:
    """Catches SIGINT and SIGTERM while the loop runs; does nothing outside the main thread."""
    interruption = Interruption()
    if threading.current_thread() is not threading.main_thread():
        yield interruption
        return

    def ask(number: int, frame: FrameType | None) -> None:
        if interruption.asked:
            raise KeyboardInterrupt
        interruption.asked = True

    before = {kind: signal.signal(kind, ask) for kind in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield interruption
    finally:
        for kind, handler in before.items():
            signal.signal(kind, handler)
