"""Measuring encoders. Stands on the encoder alone and knows nothing of training."""

from nearer.evaluation.evaluate import evaluate
from nearer.evaluation.pair_task import PairTask, file_task
from nearer.evaluation.results import Results
from nearer.evaluation.task import Scorer, SentenceVectors, Task, TaskScore
from nearer.evaluation.tasks import load_tasks

__all__ = [
    "PairTask",
    "Results",
    "Scorer",
    "SentenceVectors",
    "Task",
    "TaskScore",
    "evaluate",
    "file_task",
    "load_tasks",
]
