"""A method's losses of given vectors, as if its passes had ended with them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from torch import Tensor

from nearer.methods import Losses, Method, Outputs

NAMES = ("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth")


def losses_of(method: Method, vectors: Sequence[Tensor], given: Mapping[str, Tensor]) -> Losses:
    """vectors: of each pass, in the order of the method's passes. No modules."""
    modules: Any = {}
    return method.loss(Outputs(dict(zip(NAMES, vectors, strict=False)), {}), given, modules)
