"""The words of a small file of word vectors."""

from __future__ import annotations

VECTORS = {
    "the": (1.0, 0.0, 0.0),
    "cat": (0.0, 1.0, 0.0),
    "sat": (0.0, 0.0, 1.0),
    "Paris": (0.5, -0.5, 2.0),
    "paris": (9.0, 9.0, 9.0),
    "n't": (-1.0, 2.0, 0.25),
    "do": (0.0, 3.0, 0.0),
    ",": (0.1, 0.1, 0.1),
    ". . .": (4.0, 4.0, -4.0),
}
