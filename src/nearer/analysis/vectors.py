"""Vectors as the analyses take them: checked, and on the sphere."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import normalize

from nearer.errors import InputError

Vectors = NDArray[Any] | Tensor


def unit(vectors: Vectors, what: str = "vectors", *, least: int = 1) -> Tensor:
    """Rows of length 1 in float64, where the vectors are; `what` names them if they cannot be used.

    A row of zeros has no direction and stays one: its cosine with everything is 0, as evaluation has it.
    """
    rows = vectors if isinstance(vectors, Tensor) else torch.from_numpy(np.ascontiguousarray(vectors))
    if rows.ndim != 2:
        raise InputError(f"{what}: of shape {tuple(rows.shape)}, one row a sentence is needed (sentences, dimension).")
    if len(rows) < least:
        raise InputError(f"{what}: {len(rows)} given, at least {least} are needed.")
    wrong = int((~rows.isfinite().all(dim=1)).sum())
    if wrong:
        raise InputError(
            f"{what}: {wrong:,} of {len(rows):,} are not finite numbers; the model that made them is broken."
        )
    return normalize(rows.double(), dim=-1, eps=1e-300)
