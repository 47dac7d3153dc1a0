"""From names to tasks: the one place that knows which names there are, and what each stands for.

| name | task |
| --- | --- |
| `sts12` … `sts16`, `stsb`, `sick-r`, `stsb-dev` … | an STS set; `sts` is the seven |
| `everyday`, or a file of scored pairs | the same for graded pairs, bundled or of your own |
| `mr` … `mrpc`, `mr-fast` …, `mr-dev` … | a transfer set; `transfer`, `transfer-fast`, `transfer-dev` are the seven |
| `transfer:FILE`, `transfer-fast:FILE` | the same for labelled sentences of your own |
| `ranking:stsb`, `ranking:FILE` | the ranking task that scored pairs hold; `ranking` is those of the seven |
| `wikiqa`, `askubuntu` …, `rerank:FILE` | queries with candidates |
| `retrieval:FOLDER`, `retrieval:FOLDER?split=dev&strict=true` | queries over a corpus |
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

from nearer.encoder.sources import BUNDLED
from nearer.errors import SettingError
from nearer.evaluation.pair_task import PairTask, file_task
from nearer.evaluation.ranking_task import ranking_of
from nearer.evaluation.reranking_data import RERANKING, load_reranking
from nearer.evaluation.retrieval_data import load_retrieval
from nearer.evaluation.sts_data import load_sts
from nearer.evaluation.sts_sets import EVERYDAY, SEVEN, TASKS
from nearer.evaluation.task import Task
from nearer.evaluation.transfer_data import TRANSFER, TRANSFER_DEV, load_labelled, load_transfer
from nearer.text.in_memory import is_table

RANKING_OF, RERANK, RETRIEVAL = "ranking:", "rerank:", "retrieval:"
LABELLED = {"transfer:": "test", "transfer-fast:": "fast"}  # form: setting
FAST = {f"{name}-fast": name for name in TRANSFER}
GROUPS: dict[str, tuple[str, ...]] = {
    "sts": SEVEN,
    "transfer": tuple(TRANSFER),
    "transfer-fast": tuple(FAST),
    "transfer-dev": tuple(TRANSFER_DEV),
    "ranking": tuple(f"{RANKING_OF}{name}" for name in SEVEN),  # each of them has queries
}
KINDS: dict[str, tuple[str, ...]] = {
    "sts": ("sts", EVERYDAY, *TASKS),
    "transfer": ("transfer", "transfer-fast", "transfer-dev", *TRANSFER, *FAST, *TRANSFER_DEV),
    "ranking": ("ranking",),
    "reranking": tuple(RERANKING),
}
NAMES = tuple(name for names in KINDS.values() for name in names)
FORMS = ("transfer:FILE", f"{RANKING_OF}NAME", f"{RERANK}FILE", f"{RETRIEVAL}FOLDER")
TESTS = {*SEVEN, "sick-r-all", *TRANSFER, *FAST, *(name for name, known in RERANKING.items() if known.split == "test")}
ON_THE_HUB = {name for name, known in RERANKING.items() if known.repository}


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
    return [_load(task, data, strict) if isinstance(task, str) else task for task in single.values()]


def given_tasks(tasks: Any) -> list[str | Task]:
    """What was given as tasks in Python, one by one; scored pairs in memory are made tasks."""
    if isinstance(tasks, Mapping) and not any(hasattr(part, "column_names") for part in tasks.values()):
        return [_given(part, f"tasks[{name!r}]", name) for name, part in tasks.items()]
    if isinstance(tasks, (str, Path, Mapping)) or is_table(tasks) or not isinstance(tasks, Iterable):
        return [_given(tasks, "tasks")]
    several = list(tasks)
    if several and all(_is_record(item) for item in several):
        return [_given(several, "tasks")]
    return [_given(item, f"tasks[{place}]") for place, item in enumerate(several)]


def _given(task: Any, argument: str, name: str | None = None) -> str | Task:
    if isinstance(task, (str, Path)):
        return str(task) if name is None else file_task(task, name=name)
    if hasattr(task, "sentences") and hasattr(task, "score"):
        given: Task = task
        return given
    return file_task(task, name=name, argument=argument)


def _is_record(item: Any) -> bool:
    """A pair with its score, not a list of such."""
    return isinstance(item, Mapping) or (isinstance(item, (list, tuple)) and bool(item) and isinstance(item[0], str))


def expand(name: str) -> tuple[str, ...]:
    """The single tasks that a name stands for, as they are written here; what is no name of a task is an error."""
    lowered = name.lower()
    if lowered in GROUPS:
        return GROUPS[lowered]
    if lowered in NAMES:
        return (lowered,)
    if lowered.startswith(RANKING_OF):
        return tuple(f"{RANKING_OF}{pairs}" for pairs in _expand_pairs(name[len(RANKING_OF) :]))
    for form in (*LABELLED, RERANK, RETRIEVAL):
        if lowered.startswith(form) and len(name) > len(form):
            return (form + name[len(form) :],)
    if _is_file(name):
        return (name,)
    raise _unknown(name)


def needs_data(name: str) -> bool:
    """Whether a task of this name is to be had only with the folder of the published sets."""
    published = [single.removeprefix(RANKING_OF) for single in expand(name)]
    return any(single in NAMES and single != EVERYDAY and single not in ON_THE_HUB for single in published)


def is_test(name: str) -> bool:
    """Whether nothing may be selected by it: a published test set, or what is made of one."""
    return any(single.removeprefix(RANKING_OF) in TESTS for single in expand(name))


def shown_name(name: str) -> str:
    """`STS-B dev` for `stsb-dev`: what a published task is called among the results; empty for any other."""
    lowered = name.lower()
    if lowered.startswith(RANKING_OF):
        set_name, split = TASKS.get(lowered.removeprefix(RANKING_OF), ("", ""))
        return f"{set_name} ranking {split}" if set_name else ""
    if lowered in TRANSFER_DEV:
        return f"{TRANSFER_DEV[lowered].name} dev"
    if FAST.get(lowered, lowered) in TRANSFER:
        return TRANSFER[FAST.get(lowered, lowered)].name
    if lowered in RERANKING:
        return f"{RERANKING[lowered].name} {RERANKING[lowered].split}"
    return " ".join(TASKS.get(lowered, ()))


def _load(name: str, data: str | Path | None, strict: bool) -> Task:
    form, colon, rest = name.partition(":")
    if form + colon == RANKING_OF:
        return ranking_of(_load_pairs(rest, data))
    if form + colon == RETRIEVAL:
        return _load_retrieval(rest, strict)
    if form + colon == RERANK or name in RERANKING:
        return load_reranking(name, data, strict=strict)
    if form + colon in LABELLED:
        return load_labelled(rest, setting=LABELLED[form + colon])
    if name in FAST:
        return load_transfer(FAST[name], _folder(name, "SentEval's sets", data), setting="fast")
    if name in TRANSFER or name in TRANSFER_DEV:
        return load_transfer(name, _folder(name, "SentEval's sets", data))
    return _load_pairs(name, data)


def _load_retrieval(name: str, strict: bool) -> Task:
    folder, mark, asked = (name, "", "") if Path(name).is_dir() else name.partition("?")
    options = dict(parse_qsl(asked, keep_blank_values=True))
    split, own = options.pop("split", "test"), options.pop("strict", "true" if strict else "false")
    if options or (mark and not asked) or not split or own not in ("true", "false"):
        raise SettingError(
            f"tasks: '{RETRIEVAL}{name}': no such folder, and what may follow one is ?split=NAME, ?strict=true or "
            "?split=NAME&strict=true."
        )
    return load_retrieval(folder, split=split, strict=own == "true")


def _load_pairs(name: str, data: str | Path | None) -> PairTask:
    if name == EVERYDAY:
        return file_task(BUNDLED / "everyday-pairs.tsv", name=EVERYDAY)
    if name not in TASKS:
        return file_task(name)
    [task] = load_sts([name], _folder(name, "the STS sets", data))
    return task


def _folder(name: str, holds: str, data: str | Path | None) -> str | Path:
    if data is None:
        raise SettingError(f"tasks: {name!r} needs the folder of {holds}; name it by data.", argument="data")
    beside_others = Path(data) / "senteval"  # a folder of all data has SentEval's below, beside the reranking sets
    return beside_others if beside_others.is_dir() else data


def _expand_pairs(name: str) -> tuple[str, ...]:
    """As `expand`, of names of scored pairs alone."""
    lowered = name.lower()
    if lowered == "sts":
        return SEVEN
    if lowered == EVERYDAY or lowered in TASKS:
        return (lowered,)
    if not name or lowered in NAMES or not _is_file(name):
        raise SettingError(
            f"tasks: '{RANKING_OF}{name}': a ranking is made of scored pairs: a file of them, {EVERYDAY}, or one of "
            f"{', '.join(TASKS)}."
        )
    return (name,)


def _is_file(name: str) -> bool:
    return Path(name).is_file() or bool(Path(name).suffix)


def _unknown(name: str) -> SettingError:
    near = difflib.get_close_matches(name.lower(), NAMES, n=1)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    kinds = "; ".join(f"{kind}: {', '.join(names)}" for kind, names in KINDS.items())
    return SettingError(f"tasks: {name!r} is neither a file nor a task. {kinds}; or {', '.join(FORMS)}.{hint}")
