"""A language model that answers by rule: what it is asked, in which order, and what it says can be looked at."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Iterator

from nearer.construct.requests import Generated, Request

Answer = Callable[[Request], Generated]


class ScriptedEngine:
    """Holds `batch` requests at a time and ends them in an order drawn by `seed`, as if of different lengths."""

    def __init__(self, answer: Answer, *, batch: int = 4, seed: int = 0) -> None:
        self.rule, self.batch, self.seed = answer, batch, seed
        self.asked: list[Request] = []

    def identity(self) -> dict[str, str]:
        return {"model": "scripted"}

    def answer(self, requests: deque[Request]) -> Iterator[Generated]:
        draw = random.Random(self.seed)
        held: list[Request] = []
        while requests or held:
            while requests and len(held) < self.batch:
                held.append(requests.popleft())
            request = held.pop(draw.randrange(len(held)))
            self.asked.append(request)
            yield self.rule(request)


def said(request: Request, text: str, ended: str = "model") -> Generated:
    return Generated(request, text, tokens=len(text.split()), ended=ended)  # type: ignore[arg-type]


def counting(request: Request) -> Generated:
    """A sentence that follows from the request alone."""
    return said(request, f"Result: “{request.prompt.split('<')[1].split('>')[0].split(' |')[0]} | {request.step}”\n")
