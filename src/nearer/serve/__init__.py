"""A model as an HTTP service: embeddings, reranking, similarity, search. Knows nothing of training."""

from nearer.serve.limits import Limits
from nearer.serve.model import ServedModel

__all__ = ["Limits", "ServedModel"]
