"""Tests of what runs on a GPU alone; on machines without one they are skipped and say so."""

from __future__ import annotations

import pytest
import torch


@pytest.fixture(autouse=True)
def _needs_a_gpu() -> None:
    if not torch.cuda.is_available():
        pytest.skip("needs a GPU")
