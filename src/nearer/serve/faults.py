"""Everything that goes wrong, in the shape that a path's clients know. What clients send is no internal error."""

from __future__ import annotations

import json
import logging
from typing import TYPE_CHECKING, Any

from nearer.serve.limits import Refusal
from nearer.serve.schemas import SHAPES

if TYPE_CHECKING:
    from fastapi import FastAPI, Request
    from fastapi.responses import Response

logger = logging.getLogger("nearer.serve")
REASONS = {
    400: "the body cannot be read as JSON.",
    404: "there is nothing at this path.",
    405: "this path is not for this method.",
}


def add_fault_handlers(app: FastAPI) -> None:
    from fastapi.exceptions import RequestValidationError
    from starlette.exceptions import HTTPException

    app.add_exception_handler(Refusal, _refused)
    app.add_exception_handler(RequestValidationError, _wrong_shape)
    app.add_exception_handler(HTTPException, _http)
    app.add_exception_handler(Exception, _defect)


def refusal_response(request: Request, refusal: Refusal, headers: dict[str, str] | None = None) -> Response:
    from fastapi.responses import Response

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
