"""Grids over settings and construction: every combination trained with several seeds, and what came of it."""
