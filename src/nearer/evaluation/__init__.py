"""Measuring encoders. Stands on the encoder alone and knows nothing of training."""

from nearer.evaluation.pair_task import PairTask, file_task
from nearer.evaluation.results import Results, TaskScore
from nearer.evaluation.sts import evaluate, load_tasks

__all__ = ["PairTask", "Results", "TaskScore", "evaluate", "file_task", "load_tasks"]
