"""What every format hands on: one row a record, good or spoilt."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from nearer.text.faults import Fault


class Row(NamedTuple):
    """The raw values of one record in the order of the shape's fields, or the fault that spoils it."""

    line: int
    values: Sequence[object]
    fault: Fault | None = None
    detail: str = ""
