"""How answers are written: as JSON, with many vectors as a stream, and all that goes wrong in the shape that a path's
clients know. What clients send is never an internal error."""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import Response, StreamingResponse
from pydantic import BaseModel
from starlette.exceptions import HTTPException

from nearer.serve import schemas
from nearer.serve.fairness import holding_of
from nearer.serve.limits import Refusal
from nearer.serve.model import Encoded, Vectors
from nearer.serve.schemas import SHAPES
from nearer.serve.service import Service

# Vectors written at a time, after which other requests get their turn
ROWS_AT_ONCE = 16
REASONS = {
    400: "the body cannot be read as JSON.",
    404: "there is nothing at this path.",
    405: "this path is not for this method.",
}


def describe_errors(*statuses: int, shape: type[BaseModel] = schemas.ErrorBody) -> dict[int | str, dict[str, Any]]:
    said = {
        400: "The body is not JSON.",
        401: "The key is missing or wrong.",
        404: "No such model is served, or it has no index.",
        408: "The body did not come in time.",
        413: "The body is too large.",
        415: "The body is not application/json.",
        421: "The service was called by another machine's name.",
        422: "The body does not say what is needed, or asks for more than the limits.",
        500: "A defect; the service's log tells it.",
        503: "Too much is waiting; try again.",
    }
    return {status: {"model": shape, "description": said[status]} for status in statuses}


READING = describe_errors(401, 421, 503)
LOOKING = describe_errors(401, 404, 421, 422, 500, 503)
ASKED = (400, 401, 404, 408, 413, 415, 421, 422, 500, 503)
ASKING = describe_errors(*ASKED)


def count_usage(encoded: Encoded) -> dict[str, int]:
    tokens = int(encoded.tokens.sum())
    return {"prompt_tokens": tokens, "total_tokens": tokens, "cut_texts": int(encoded.cut.sum())}


def as_list(texts: str | list[str]) -> list[str]:
    return [texts] if isinstance(texts, str) else texts


def json_response(content: Any) -> Response:
    return Response(json.dumps(content, allow_nan=False), media_type="application/json")


def write_rows(service: Service, request: Request, start: str, parts: Sequence[Rows], end: str) -> Response:
    """An answer with many vectors: it is written while it is sent, so that it is never held as a whole."""

    async def pieces() -> AsyncIterator[str]:
        client = holding_of(request).client
        yield start
        for part in parts:
            yield part.start
            for first in range(0, len(part.vectors), ROWS_AT_ONCE):
                async with service.long_steps.turn(client):
                    rows = ", ".join(part.rows(first, first + ROWS_AT_ONCE))
                yield f", {rows}" if first else rows
            yield part.end
        yield end

    if sum(len(part.vectors) for part in parts) <= ROWS_AT_ONCE:
        rows = "".join(part.start + ", ".join(part.rows(0, ROWS_AT_ONCE)) + part.end for part in parts)
        return Response(start + rows + end, media_type="application/json")
    return StreamingResponse(pieces(), media_type="application/json")


@dataclass(frozen=True)
class Rows:
    """Vectors in JSON between a start and an end: lists of numbers, or float32 in base64. wrap: what is made of each,
    by its number."""

    start: str
    vectors: Vectors
    encoding: str
    end: str
    wrap: Callable[[int, str], str] = lambda _, row: row

    def rows(self, first: int, stop: int) -> list[str]:
        some = self.vectors[first:stop]
        if self.encoding == "float":
            shown = [json.dumps(row) for row in some.tolist()]
        else:
            shown = [f'"{base64.b64encode(row.tobytes()).decode("ascii")}"' for row in some.astype("<f4")]
        return [self.wrap(number, row) for number, row in enumerate(shown, first)]


def add_fault_handlers(app: FastAPI) -> None:
    app.add_exception_handler(Refusal, _refused)
    app.add_exception_handler(RequestValidationError, _wrong_shape)
    app.add_exception_handler(HTTPException, _http)
    app.add_exception_handler(Exception, _defect)


def refusal_response(request: Request, refusal: Refusal, headers: dict[str, str] | None = None) -> Response:
    # ASCII: a client's words may hold what cannot be written as UTF-8
    content = json.dumps(refusal.body(request.url.path)).encode("ascii")
    return Response(content, refusal.status, {**refusal.headers, **(headers or {})}, "application/json")


def _refused(request: Request, error: Any) -> Response:
    return refusal_response(request, error)


def _wrong_shape(request: Request, error: Any) -> Response:
    first = error.errors()[0]
    if first["type"] == "json_invalid":
        message = f"the body is not JSON: {first['ctx']['error']}."
        return refusal_response(request, Refusal(400, message, code="invalid_json"))
    where = [str(part) for part in first["loc"][1:] if part not in SHAPES]  # the first part says "body"
    param = ".".join(where)[:200] or None
    message = f"{param or 'body'}: {first['msg']}."
    if first["type"] == "string_type" and isinstance(first.get("input"), (int, list)):
        message += " Token ids are taken by /v1/embeddings alone: send text."
    return refusal_response(request, Refusal(422, message[:400], code=first["type"], param=param))


def _http(request: Request, error: Any) -> Response:
    message = f"{request.method} {request.url.path[:100]}: {REASONS.get(error.status_code, error.detail)}"
    return refusal_response(
        request, Refusal(error.status_code, message, code=f"http_{error.status_code}"), error.headers
    )


def _defect(request: Request, error: Any) -> Response:
    # told in the log alone: the words of a defect may name files
    return refusal_response(request, Refusal(500, "The service failed; its log says how.", code="internal"))
