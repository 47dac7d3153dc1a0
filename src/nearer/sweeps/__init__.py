"""Grids over settings and construction: every combination trained with several seeds, and what came of it."""

from nearer.sweeps.sweep import sweep

__all__ = ["sweep"]
