"""The OpenAPI description with this service's own limits in it, so that who obeys it is not refused."""

from __future__ import annotations

from typing import Any

from nearer.serve.limits import Limits


def describe_limits(description: dict[str, Any], limits: Limits, dimension: int) -> None:
    """Into the bodies of requests: items of lists, characters of texts, counts, and the model's dimension."""
    components = description["components"]["schemas"]
    for name, component in components.items():
        if name.endswith("Body") or name == "Document":
            _bound(component, limits)
    if "SearchBody" in components:
        for count in ("k", "rerank"):
            components["SearchBody"]["properties"][count]["maximum"] = limits.items
    for choice in components["EmbeddingsBody"]["properties"]["dimensions"]["anyOf"]:
        if choice["type"] == "integer":
            choice.update(minimum=dimension, maximum=dimension)


def _bound(part: Any, limits: Limits) -> None:
    if isinstance(part, list):
        for one in part:
            _bound(one, limits)
    if not isinstance(part, dict):
        return
    kind = part.get("type")
    if kind == "array":
        part.setdefault("maxItems", limits.items)
    elif kind == "string" and "minLength" in part:
        part.setdefault("maxLength", limits.characters)
    for one in part.values():
        _bound(one, limits)
