"""What a request may ask for, and how it is told that it asked for more. Memory is bounded by these."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields

from nearer.errors import SettingError

KIB = 1024
MIB = 1024 * KIB
COHERE_PATHS = ("/v2/embed", "/v2/rerank")
TEI_PATHS = ("/embed", "/rerank")


@dataclass(frozen=True)
class Limits:
    """Of one request: items, characters of a text, tokens and scores in all, bytes of its body.

    Of the service: waiting (texts that wait for the model), concurrent (requests at a time), held (bytes of all bodies
    at a time). Of a batch: batch_tokens (an estimate; None suits the device) and batch_texts. batch_wait: seconds
    that a text waits for company; timeout: seconds in which a body must have come, and an answer must be there.
    """

    items: int = 2048
    characters: int = 100_000
    tokens: int = 300_000
    scores: int = 100_000
    body: int = 8 * MIB
    waiting: int = 16_384
    concurrent: int = 1024
    held: int = 256 * MIB
    batch_tokens: int | None = None
    batch_texts: int = 256
    batch_wait: float = 0.002
    timeout: float = 60.0

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if value is None:
                continue
            if not value >= (0 if field.name == "batch_wait" else 1e-3):
                raise SettingError(f"{field.name}: {value} is too small.")
            if not value < math.inf:
                raise SettingError(f"{field.name}: {value} is no limit; name a number.")
        if self.waiting < self.items:
            raise SettingError(
                f"waiting: {self.waiting} is less than the {self.items} items that one request may have."
            )
        if self.held < self.body:
            raise SettingError(f"held: {self.held} bytes are less than the {self.body} that one body may have.")


class Refusal(Exception):
    """A request that is not answered as asked: a status, one sentence, and the field that it is about."""

    def __init__(self, status: int, message: str, *, code: str, param: str | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.code = code
        self.param = param

    @property
    def headers(self) -> dict[str, str]:
        if self.status == 401:
            return {"WWW-Authenticate": "Bearer"}
        return {"Retry-After": "1"} if self.status == 503 else {}

    def body(self, path: str) -> dict[str, object]:
        """In the shape that a path's clients know, so that they show the message: OpenAI's unless it is another's."""
        if path in COHERE_PATHS:
            return {"message": self.message}
        if path in TEI_PATHS:
            kind = {500: "Backend", 503: "Overloaded"}.get(self.status, "Validation")
            return {"error": self.message, "error_type": kind}
        kind = "server_error" if self.status >= 500 else "invalid_request_error"
        return {"error": {"message": self.message, "type": kind, "param": self.param, "code": self.code}}


def overloaded(message: str) -> Refusal:
    return Refusal(503, message, code="overloaded")


def invalid(param: str, message: str, code: str = "invalid_value") -> Refusal:
    """A field whose value cannot be taken."""
    return Refusal(422, f"{param}: {message}", code=code, param=param)


def check_texts(texts: Sequence[str], param: str, limits: Limits) -> None:
    """Number and lengths; that they are strings and not empty was checked with the body's shape."""
    check_items(len(texts), param, limits)
    for place, text in enumerate(texts):
        if len(text) > limits.characters:
            message = f"item {place} has {len(text):,} characters; at most {limits.characters:,} are taken."
            raise invalid(param, message, "text_too_long")


def check_items(count: int, param: str, limits: Limits) -> None:
    if count > limits.items:
        message = f"{count:,} items in one request; at most {limits.items:,} are taken. Send several requests."
        raise invalid(param, message, "too_many_items")


def check_scores(count: int, param: str, limits: Limits) -> None:
    if count > limits.scores:
        raise invalid(param, f"{count:,} scores in one answer; at most {limits.scores:,} are given.", "too_many_scores")
