"""Valid files made wrong: bytes flipped, cut and repeated; values of JSON swapped, deleted and added."""

from __future__ import annotations

import copy
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st

EXAMPLES = int(os.environ.get("NEARER_FUZZ", "0"))

DEEP: Any = "end"
for _ in range(60):
    DEEP = [DEEP]

ODD: list[Any] = [
    None,
    True,
    False,
    0,
    -1,
    1,
    3,
    2**31,
    2**63,
    10**30,
    0.5,
    1e308,
    float("inf"),
    float("nan"),
    "",
    "x",
    "../..",
    "/etc",
    "\x00",
    "\x1b]52;c;\x07",
    "mean",
    "9" * 5000,
    [],
    {},
    [None],
    ["x"],
    [[]],
    {"x": 1},
    DEEP,
]


def tries(count: int) -> Callable[[Any], Any]:
    """So many examples in `make test`; what NEARER_FUZZ says in `make fuzz`."""
    return settings(max_examples=EXAMPLES or count)


@st.composite
def damaged_bytes(draw: st.DrawFn, data: bytes) -> bytes:
    """The same bytes with one to four faults."""
    found = bytearray(data)
    for _ in range(draw(st.integers(1, 4))):
        place = draw(st.integers(0, max(0, len(found) - 1)))
        fault = draw(st.sampled_from(["flip", "set", "cut", "delete", "insert", "repeat"]))
        size = draw(st.integers(1, 16))
        if not found:
            break
        if fault == "flip":
            found[place] ^= 1 << draw(st.integers(0, 7))
        elif fault == "set":
            found[place] = draw(st.sampled_from([0, 1, 9, 10, 13, 34, 39, 44, 91, 123, 127, 128, 255]))
        elif fault == "cut":
            del found[place:]
        elif fault == "delete":
            del found[place : place + size]
        elif fault == "insert":
            found[place:place] = draw(st.binary(min_size=1, max_size=16))
        else:
            found[place:place] = found[place : place + size]
    return bytes(found)


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The way to every value within another, the outermost included."""
    found = [path]
    if isinstance(value, dict):
        for key, inner in value.items():
            found += places(inner, (*path, key))
    elif isinstance(value, list):
        for number, inner in enumerate(value[:20]):
            found += places(inner, (*path, number))
    return found


@st.composite
def swapped_values(draw: st.DrawFn, value: Any) -> Any:
    """The same value as JSON has it, with one to three parts replaced, deleted, wrapped or added."""
    found = copy.deepcopy(value)
    for _ in range(draw(st.integers(1, 3))):
        path = draw(st.sampled_from(places(found)))
        change = draw(st.sampled_from(["replace", "delete", "wrap", "add"]))
        odd = copy.deepcopy(draw(st.sampled_from(ODD)))
        if not path:
            found = odd if change == "replace" else found
            continue
        outer = found
        for step in path[:-1]:
            outer = outer[step]
        if change == "replace":
            outer[path[-1]] = odd
        elif change == "wrap":
            outer[path[-1]] = draw(st.sampled_from([[outer[path[-1]]], {"x": outer[path[-1]]}]))
        elif change == "add" and isinstance(outer, dict):
            outer[draw(st.sampled_from(["x", "", "type", "path", "format", "trust_remote_code"]))] = odd
        elif change == "delete":
            del outer[path[-1]]
    return found


@st.composite
def damaged_json(draw: st.DrawFn, path: Path) -> bytes:
    """A JSON file's content with wrong values, or wrong bytes."""
    content = path.read_bytes()
    if draw(st.booleans()):
        return draw(damaged_bytes(content))
    return json.dumps(draw(swapped_values(json.loads(content)))).encode()
