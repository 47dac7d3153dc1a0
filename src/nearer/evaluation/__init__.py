"""Measuring encoders. Stands on the encoder alone and knows nothing of training."""

from nearer.evaluation.evaluate import Results, evaluate
from nearer.evaluation.pair_task import PairTask, file_task
from nearer.evaluation.task import Form, ItemScores, KnownTask, Scorer, SentenceVectors, Task, TaskKind, TaskScore
from nearer.evaluation.tasks import load_tasks, register_kind

__all__ = [
    "Form",
    "ItemScores",
    "KnownTask",
    "PairTask",
    "Results",
    "Scorer",
    "SentenceVectors",
    "Task",
    "TaskKind",
    "TaskScore",
    "evaluate",
    "file_task",
    "load_tasks",
    "register_kind",
]
