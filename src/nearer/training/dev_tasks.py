"""The tasks by which a run is judged: dev tasks that choose the step, watched ones that do not, tests at the end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nearer.errors import SettingError
from nearer.evaluation.held_out_task import NAME as HELD_OUT
from nearer.evaluation.held_out_task import held_out_task, write_task
from nearer.evaluation.retrieval_task import RetrievalTask
from nearer.evaluation.tasks import needs_data
from nearer.text.reading import Reading
from nearer.text.reading_filters import hold_out
from nearer.training.selection import Selection
from nearer.training.settings import TrainingSettings


@dataclass(frozen=True)
class DevTasks:
    """selection: None where nothing chooses, and the last step is kept. reading: the text that is left to train on."""

    selection: Selection | None
    reading: Reading[Any]
    remarks: list[str]
    held_out: RetrievalTask | None = None
    held_out_records: int = 0

    def write(self, folder: Path) -> None:
        """The held-out task, for other models to be scored on."""
        if self.held_out is not None and not (folder / HELD_OUT / "qrels.tsv").exists():
            write_task(self.held_out, folder / HELD_OUT)

    def describe(self) -> dict[str, Any]:
        """What a saved model should say of it."""
        if self.held_out is None:
            return {}
        task = self.held_out
        return {
            "held_out": {
                "records": self.held_out_records,
                "queries": len(task.queries),
                "asks": task.layout,
                "data_hash": task.data_hash(),
            }
        }


def dev_tasks(settings: TrainingSettings, data: str | None, reading: Reading[Any], folder: Path) -> DevTasks:
    """Made before anything is trained. The named tasks are read first: what is wrong with them shows at once."""
    named = [name for name in settings.select_on if name != HELD_OUT]
    selection = _selection(settings, named, data) if named else None
    if HELD_OUT not in settings.select_on:
        nothing = ["no dev task (select_on is empty): the last step is kept, whatever it is worth"]
        return DevTasks(selection, reading, [] if named else nothing)
    held = hold_out(reading, settings.held_out)
    task = held_out_task(held.records)
    if task is None:
        others = "" if named else "; the last step is kept. Name a dev task of your own (--set select_on=FILE)"
        remark = (
            f"nothing is held out for a dev task: {reading.source} is too small, or its texts are too short{others}"
        )
        return DevTasks(selection, reading, [remark])
    selection = _selection(settings, [task, *named], data)
    remark = (
        f"dev task: {len(held.records):,} records held out of training, {task.layout}; {folder / HELD_OUT} has them "
        f"(nearer evaluate MODEL --tasks retrieval:{folder / HELD_OUT})"
    )
    return DevTasks(selection, held.rest, [remark], task, len(held.records))


def _selection(settings: TrainingSettings, tasks: Sequence[str | RetrievalTask], data: str | None) -> Selection:
    try:
        return Selection(tasks, data, watch_on=settings.watch_on)
    except SettingError as error:
        if data is None and error.argument == "data":
            names = ", ".join(task for task in tasks if isinstance(task, str))
            raise SettingError(
                f"select_on: {names} needs the folder of the published sets (--data DIR); or select on records held "
                f"out of your own text (--set select_on={HELD_OUT}), on a file of your own scored pairs, or on nothing "
                "(--set select_on=[])."
            ) from None
        raise


def can_test(tasks: Sequence[str], data: str | Path | None) -> bool:
    """Whether these tasks can be had: the published sets only with their folder. Unknown names are an error."""
    need_folder = [task for task in tasks if needs_data(task)]
    return data is not None or not need_folder
