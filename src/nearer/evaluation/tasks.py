"""From names to tasks: the one file that knows which kinds of task there are, and which names each has.

| name | task |
| --- | --- |
| `sts12` … `sts16`, `stsb`, `sick-r`, `stsb-dev` … | an STS set; `sts` is the seven |
| `everyday`, or a file of scored pairs | the same for graded pairs, bundled or of your own |
| `mr` … `mrpc`, `mr-fast` …, `mr-dev` … | a transfer set; `transfer`, `transfer-fast`, `transfer-dev` are the seven |
| `transfer:FILE`, `transfer-fast:FILE` | the same for labelled sentences of your own |
| `ranking:stsb`, `ranking:FILE` | the ranking task that scored pairs hold; `ranking` is those of the seven |
| `wikiqa`, `askubuntu` …, `rerank:FILE` | queries with candidates |
| `retrieval:FOLDER`, `retrieval:FOLDER?split=dev&strict=true` | queries over a corpus |

Other packages add kinds by `register_kind` or by an entry point of the group `nearer.tasks`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

from nearer.errors import SettingError, did_you_mean
from nearer.evaluation.pair_task import file_task
from nearer.evaluation.ranking_task import RANKING_KIND
from nearer.evaluation.reranking_data import RERANKING_KIND
from nearer.evaluation.retrieval_data import RETRIEVAL_KIND
from nearer.evaluation.sts_data import STS_KIND
from nearer.evaluation.sts_sets import EVERYDAY
from nearer.evaluation.task import KnownTask, Task, TaskKind
from nearer.evaluation.transfer_data import TRANSFER_KIND
from nearer.extras import load_plugin
from nearer.text.in_memory import is_table

# in the order in which messages list them
KINDS: tuple[TaskKind, ...] = (
    STS_KIND,  # any file without a form before it is one of scored pairs
    TRANSFER_KIND,
    RANKING_KIND,
    RERANKING_KIND,
    RETRIEVAL_KIND,
)
ENTRY_POINTS = "nearer.tasks"
_registered: dict[str, TaskKind] = {}


def register_kind(kind: TaskKind) -> None:
    """Make a kind of task known by its names: `load_tasks`, `evaluate`, `compare` and the commands then have it.

    A kind that is registered again replaces itself. Its names and forms must be its own.
    """
    _check_kind(kind, (other for other in _all_kinds() if other.kind != kind.kind))
    _registered[kind.kind] = kind


def _check_kind(kind: TaskKind, others: Iterable[TaskKind]) -> None:
    if kind.kind in (own.kind for own in KINDS):
        raise SettingError(f"tasks: the kind {kind.kind!r} is one of nearer's own; give yours another name.")
    taken = {name: other.kind for other in others for name in _all_names(other)}
    for name in _all_names(kind):
        if name in taken:
            raise SettingError(f"tasks: {name!r} of the kind {kind.kind!r} is a name of the kind {taken[name]!r}.")
        if name != name.lower():
            raise SettingError(f"tasks: {name!r} of the kind {kind.kind!r} is not in lower case, as names are.")


def _all_names(kind: TaskKind) -> tuple[str, ...]:
    return (*kind.groups, *kind.known, *(form.prefix for form in kind.forms))


def load_tasks(tasks: Sequence[str | Task], data: str | Path | None, *, strict: bool = False) -> list[Task]:
    """Tasks by name (see above; `data` is the folder of the published sets), or given as they are.

    A task that comes twice (`sts,stsb`) is one task. All names are looked at before anything is read. strict: what is
    odd in retrieval and reranking data is an error instead of being counted.
    """
    single: dict[str | int, str | Task] = {}
    for given in tasks:
        if isinstance(given, str):
            single.update({name: name for name in expand(given)})
        else:
            single[id(given)] = given
    if not single:
        raise SettingError(f"tasks: none named; sts, {EVERYDAY} or a file of scored pairs.")
    return [_kind_of(task).load(task, data, strict) if isinstance(task, str) else task for task in single.values()]


def given_tasks(tasks: Any) -> list[str | Task]:
    """What was given as tasks in Python, one by one; scored pairs in memory are made tasks."""
    if isinstance(tasks, Mapping) and not any(hasattr(part, "column_names") for part in tasks.values()):
        return [_given(part, f"tasks[{name!r}]", name) for name, part in tasks.items()]
    if isinstance(tasks, (str, Path, Mapping, Task)) or is_table(tasks) or not isinstance(tasks, Iterable):
        return [_given(tasks, "tasks")]
    several = list(tasks)
    if several and all(_is_record(item) for item in several):
        return [_given(several, "tasks")]
    return [_given(item, f"tasks[{number}]") for number, item in enumerate(several)]


def _given(task: Any, argument: str, name: str | None = None) -> str | Task:
    if isinstance(task, (str, Path)):
        return str(task) if name is None else file_task(task, name=name)
    return task if isinstance(task, Task) else file_task(task, name=name, argument=argument)


def _is_record(item: Any) -> bool:
    """A pair with its score, not a list of such."""
    return isinstance(item, Mapping) or (isinstance(item, (list, tuple)) and bool(item) and isinstance(item[0], str))


def task_names() -> tuple[str, ...]:
    """All names that messages list, kind by kind; forms such as `rerank:FILE` are not among them."""
    return tuple(name for kind in _all_kinds() for name in kind.names)


def expand(name: str) -> tuple[str, ...]:
    """The single tasks that a name stands for, as they are written here; what is no name of a task is an error."""
    lowered = name.lower()
    for kind in _all_kinds():
        if lowered in kind.groups:
            return kind.groups[lowered]
        if lowered in kind.known:
            return (lowered,)
    for kind in _all_kinds():
        for form in kind.forms:
            rest = name[len(form.prefix) :]
            if lowered.startswith(form.prefix) and (rest or form.check):
                if form.check:
                    form.check(rest, task_names())
                return (form.prefix + rest,)
    if Path(name).is_file() or Path(name).suffix:
        return (name,)
    raise _unknown(name)


def needs_data(name: str) -> bool:
    """Whether a task of this name is to be had only with the folder of the published sets."""
    return any(_known(single).needs_data for single in expand(name))


def is_test(name: str) -> bool:
    """Whether nothing may be selected by it: a published test set, or what is made of one."""
    return any(_known(single).is_test for single in expand(name))


def shown_name(name: str) -> str:
    """`STS-B dev` for `stsb-dev`: what a published task is called among the results; empty for any other."""
    return _known(name.lower()).shown


def kind_name(kind: str) -> str:
    """As tables write it: `STS` for `sts`."""
    return next((known.shown for known in _all_kinds() if known.kind == kind), "") or kind


def kind_title(kind: str) -> str:
    """The heading of its scores: `Retrieval: finding documents for queries`."""
    return next((known.title for known in _all_kinds() if known.kind == kind), "") or kind


def _known(single: str) -> KnownTask:
    return next((kind.known[single] for kind in _all_kinds() if single in kind.known), KnownTask())


def _kind_of(single: str) -> TaskKind:
    """Of a name that `expand` gave."""
    for kind in _all_kinds():
        if single in kind.known or any(single.startswith(form.prefix) for form in kind.forms):
            return kind
    return STS_KIND


def _all_kinds() -> Iterator[TaskKind]:
    """Our own first: a package that cannot be loaded is no hindrance to tasks that are not its own."""
    yield from KINDS
    yield from {**_installed_kinds(), **_registered}.values()


@cache
def _installed_kinds() -> dict[str, TaskKind]:
    """The kinds of other packages that are installed here."""
    kinds: dict[str, TaskKind] = {}
    for entry in entry_points(group=ENTRY_POINTS):
        kind = load_plugin(entry, "tasks: the kind")
        if not isinstance(kind, TaskKind):
            raise SettingError(f"tasks: {entry.value} of an installed package is no TaskKind; mend or remove it.")
        _check_kind(kind, (*KINDS, *kinds.values()))
        kinds[kind.kind] = kind
    return kinds


def _unknown(name: str) -> SettingError:
    kinds = "; ".join(f"{kind.kind}: {', '.join(kind.names)}" for kind in _all_kinds() if kind.names)
    forms = ", ".join(form.prefix + form.follows for kind in _all_kinds() for form in kind.forms if form.follows)
    hint = did_you_mean(name.lower(), task_names())
    return SettingError(f"tasks: {name!r} is neither a file nor a task. {kinds}; or {forms}.{hint}")
