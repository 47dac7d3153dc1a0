"""The OpenAPI description with this service's own limits in it, so that who obeys it is not refused."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from nearer.serve.limits import Limits

COUNTS = {"SearchBody": ("k", "rerank"), "PlaceBody": ("k",)}
# A character that is no whitespace, as Python has it: other languages' \s differs
NOT_BLANK = r"[^\t-\r\u001c-\u0020\u0085\u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]"
DIMENSIONS = {"EmbeddingsBody": "dimensions", "CohereEmbedBody": "output_dimension", "TeiEmbedBody": "dimensions"}


def describe_service(
    description: dict[str, Any], limits: Limits, names: Sequence[str], dimensions: Sequence[int]
) -> None:
    """Into requests: the models' names, items of lists, characters of texts, counts, and the models' dimensions."""
    components = description["components"]["schemas"]
    for name, component in components.items():
        if name.endswith("Body") or name == "Document":
            _bound(component, limits)
        if name.endswith("Body") and "model" in component["properties"]:
            _name(component["properties"]["model"], names)
    for body, counts in COUNTS.items():
        for count in counts:
            components[body]["properties"][count]["maximum"] = limits.items
    for body, field in DIMENSIONS.items():
        for choice in components[body]["properties"][field]["anyOf"]:
            if choice["type"] == "integer":
                choice["maximum"] = max(dimensions)
    for path in description["paths"].values():
        for parameter in path.get("get", {}).get("parameters", []):
            if parameter["name"] == "model":
                parameter["schema"] = {"type": "string", "enum": list(names)}


def _name(part: dict[str, Any], names: Sequence[str]) -> None:
    for choice in part.get("anyOf", [part]):
        if choice["type"] == "string":
            choice["enum"] = list(names)


def _bound(part: Any, limits: Limits) -> None:
    if isinstance(part, list):
        for one in part:
            _bound(one, limits)
    if not isinstance(part, dict):
        return
    kind = part.get("type")
    if kind == "array":
        token_ids = part["items"].get("type") == "integer"
        part.setdefault("maxItems", limits.tokens if token_ids else limits.items)
    elif kind == "string" and "minLength" in part:
        part.setdefault("maxLength", limits.characters)
        part.setdefault("pattern", NOT_BLANK)
    for one in part.values():
        _bound(one, limits)
