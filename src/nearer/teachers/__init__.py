"""Where ranking knowledge comes from. Knows encoders and their vectors, nothing of objectives or the loop."""

from nearer.teachers.rank_vectors import CorpusCovariance, rank_similarities, rank_vectors

__all__ = ["CorpusCovariance", "rank_similarities", "rank_vectors"]
