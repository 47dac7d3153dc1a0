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

# A client that went away reads no status; the log and the counts do (nginx' number for it).
CLIENT_GONE = 499
# Memory of a request, for each byte of its body: the byte itself, its text in Python's strings (four bytes a character
# if one of them is outside the basic plane), and the text once more where an answer repeats it
BODY_COST = 6
# Of one number of an answer: a float of Python, its place in a list, its digits
SCORE_COST = 64
# Of a connection beside its head: what is read from it at once, and what may wait in front of a full buffer
READ_AT_ONCE, READ_AHEAD = 256 * KIB, 64 * KIB
# Connections beyond the bound that are open just to be told so
CONNECTIONS_TOLD = 64
# While a body is read as JSON, which is done for one at a time: an empty list in three bytes is one of 64
PARSING_COST = 32


@dataclass(frozen=True)
class Limits:
    """Of one request: items, characters of a text, tokens and scores in all, bytes of its body and of its answer.

    Of the service: waiting (texts that wait for the model), concurrent (requests at a time), held (bytes of memory
    that all requests take, see `BODY_COST`), connections. Of these four a client has a share, see `shares`.
    Of what stands before a body: bytes of the head and number of headers. Of a batch: batch_tokens (an estimate; None
    suits the device) and batch_texts. batch_wait: seconds that a text waits for company.
    receive: seconds in which a head must have come, and then a body; timeout: in which an answer must be there, and
    then be taken; grace: that running requests have when the service is told to end.
    """

    items: int = 2048
    characters: int = 100_000
    tokens: int = 300_000
    scores: int = 100_000
    body: int = 2 * MIB
    answer: int = 32 * MIB
    waiting: int = 16_384
    concurrent: int = 1024
    held: int = 256 * MIB
    connections: int = 1024
    head: int = 32 * KIB
    headers: int = 100
    batch_tokens: int | None = None
    batch_texts: int = 256
    batch_wait: float = 0.002
    receive: float = 15.0
    timeout: float = 60.0
    grace: float = 30.0

    @property
    def memory(self) -> int:
        """Bytes that clients can make the service take, whatever they send, beside what its model takes at work."""
        connection = 2 * self.head + READ_AT_ONCE + READ_AHEAD
        return self.held + self.connections * connection + PARSING_COST * self.body

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
        if self.held < 2 * BODY_COST * self.body:
            message = f"{self.held} bytes are less than twice the {BODY_COST} x {self.body} that one body may take."
            raise SettingError(f"held: {message}")


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


def ending() -> Refusal:
    """For who is not answered because the service ends."""
    return Refusal(503, "The service is ending; ask again elsewhere, or when it is back.", code="ending")


def check_texts(texts: Sequence[str], param: str, limits: Limits) -> None:
    """Number, lengths, and that there is something to read; that they are strings was checked with the body's shape."""
    check_items(len(texts), param, limits)
    for number, text in enumerate(texts):
        if not text or text.isspace():
            raise invalid(param, f"item {number} is blank; a text needs something to read.", "blank_text")
        if len(text) > limits.characters:
            message = f"item {number} has {len(text):,} characters; at most {limits.characters:,} are taken."
            raise invalid(param, message, "text_too_long")


def check_items(count: int, param: str, limits: Limits) -> None:
    if count > limits.items:
        message = f"{count:,} items in one request; at most {limits.items:,} are taken. Send several requests."
        raise invalid(param, message, "too_many_items")


def check_scores(count: int, param: str, limits: Limits) -> None:
    if count > limits.scores:
        raise invalid(param, f"{count:,} scores in one answer; at most {limits.scores:,} are given.", "too_many_scores")
