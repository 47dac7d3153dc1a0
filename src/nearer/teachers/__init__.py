"""Where ranking knowledge comes from. Knows encoders and their vectors, nothing of objectives or the loop."""

from nearer.teachers.cross_encoder import CrossEncoder
from nearer.teachers.rank_encoder import RankEncoder, load_model
from nearer.teachers.rank_vectors import CorpusCovariance, CorpusRanks
from nearer.teachers.teacher import Teacher, TeacherList, Teachers, TeacherSettings
from nearer.teachers.vector_store import VectorStore

__all__ = [
    "CorpusCovariance",
    "CorpusRanks",
    "CrossEncoder",
    "RankEncoder",
    "Teacher",
    "TeacherList",
    "TeacherSettings",
    "Teachers",
    "VectorStore",
    "load_model",
]
