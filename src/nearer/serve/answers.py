"""What the endpoints' answers have in common: how they are written, and which refusals are announced."""

from __future__ import annotations

import json
from typing import Any

from fastapi.responses import Response
from pydantic import BaseModel

from nearer.serve import schemas
from nearer.serve.served import Encoded


def errors(*statuses: int, shape: type[BaseModel] = schemas.ErrorBody) -> dict[int | str, dict[str, Any]]:
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


READING = errors(401, 421, 503)
LOOKING = errors(401, 404, 421, 422, 500, 503)
ASKED = (400, 401, 404, 408, 413, 415, 421, 422, 500, 503)
ASKING = errors(*ASKED)


def usage(encoded: Encoded) -> dict[str, int]:
    tokens = int(encoded.tokens.sum())
    return {"prompt_tokens": tokens, "total_tokens": tokens, "cut_texts": int(encoded.cut.sum())}


def listed(texts: str | list[str]) -> list[str]:
    return [texts] if isinstance(texts, str) else texts


def as_json(content: Any) -> Response:
    return Response(json.dumps(content, allow_nan=False), media_type="application/json")
