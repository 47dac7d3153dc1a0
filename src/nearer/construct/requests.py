"""What is asked of a causal language model: one sentence at a time, steered by one or two predecessors.

Builders put requests into a queue; an engine takes them whenever one of its places is free, and yields each sentence as
it ends. So a list's next request can be put behind the others while the engine goes on with the rest.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, Protocol


@dataclass(frozen=True)
class Request:
    """One sentence to generate.

    prompt: the text in front of it, as a user's turn (the engine puts the model's chat template around it);
    away_from: the prompt of the sentence before the last, None for the first one. Tokens are chosen by
    (1 + guidance) log p(· | prompt) − guidance log p(· | away_from)  (Eq. 4). number, step: whose it is, for the
    builder.
    """

    number: int
    step: int
    prompt: str
    away_from: str | None = None
    guidance: float = 0.0


@dataclass(frozen=True)
class Generated:
    """What came of a request. ended: by the model itself, at the limit of new tokens, or not begun for want of room."""

    request: Request
    text: str
    tokens: int
    ended: Literal["model", "limit", "no room"]


class Engine(Protocol):
    """A language model that answers requests, many at once."""

    def identity(self) -> dict[str, str]:
        """What a result depends on: the model's digest, its precision, the way of choosing tokens."""
        ...

    def answer(self, requests: deque[Request]) -> Iterator[Generated]:
        """Until the queue is empty and all places are free. The caller may append while it iterates.

        Each answer depends on its request alone (and on the seed), not on what is generated beside it.
        """
        ...
