"""A folder of published sets: which are there, and whether they are as they should be, to the example."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from nearer.doctor.finding import Finding, State
from nearer.errors import NearerError, first_line

FETCH = "`nearer data get sts` fetches the STS sets"


def data_folder(folder: Path) -> Iterator[Finding]:
    """One finding a kind of set, and one for each that is damaged; a folder without any is an error."""
    from nearer.evaluation.reranking_data import FOLDERS, RERANKING
    from nearer.evaluation.sts_sets import TASKS
    from nearer.evaluation.transfer_data import TRANSFER

    if not folder.is_dir():
        yield Finding("data", State.broken, f"{folder}: no such folder", f"name another with --data; {FETCH}")
        return
    # those that are not here would be fetched
    here = [
        name for name, known in RERANKING.items() if any((folder / below / known.file).is_file() for below in FOLDERS)
    ]
    findings = [
        *_kind("STS", TASKS, folder, f"{FETCH}; SentEval's or the raw layout is read too"),
        *_kind("transfer", TRANSFER, folder, "name the folder in which SentEval's MR, CR … lie"),
        *_kind("reranking", here, folder, ""),
    ]
    if all(finding.state is State.absent for finding in findings):
        yield Finding("data", State.broken, f"{folder}: holds none of the published sets", f"name another; {FETCH}")
    else:
        yield from findings


def _kind(kind: str, names: Iterable[str], folder: Path, mend: str) -> Iterator[Finding]:
    from nearer.evaluation import load_tasks
    from nearer.evaluation.sts_data import MissingData

    title = f"{kind} sets"
    complete, missing, damaged = [], [], 0
    for name in names:
        try:
            load_tasks([name], folder)
            complete.append(name)
        except MissingData:
            missing.append(name)
        except NearerError as error:
            damaged += 1
            yield Finding(title, State.broken, f"{name}: {first_line(error)}", f"get {name} again, or leave it out")
    if not complete:
        if not damaged:
            yield Finding(title, State.absent, f"none in {folder}")
    elif missing:
        found = f"{', '.join(complete)} complete; missing: {', '.join(missing)}"
        yield Finding(title, State.doubtful, found, mend)
    else:
        yield Finding(title, State.good, f"{', '.join(complete)} complete")
