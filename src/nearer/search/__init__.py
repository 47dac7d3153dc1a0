"""A saved index over a text's sentences: built once, opened at no cost, grown in place. Knows nothing of training."""

from nearer.search.index import SearchIndex
from nearer.search.manifest import Manifest
from nearer.search.opened import Hit

__all__ = ["Hit", "Manifest", "SearchIndex"]
