"""A saved index over a text's sentences: built once, opened at no cost, grown in place. Knows nothing of training."""

from nearer.search.documents import Document, read_documents
from nearer.search.index import SearchIndex
from nearer.search.manifest import Manifest
from nearer.search.setup import SearchSetup
from nearer.search.snapshot import Hit

__all__ = ["Document", "Hit", "Manifest", "SearchIndex", "SearchSetup", "read_documents"]
