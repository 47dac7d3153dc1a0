"""What a run of adapt is made of, and the folder in which it goes on: only with the same text and settings."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np

from nearer.adaptation.documents import Documents
from nearer.adaptation.labels import Labels
from nearer.adaptation.made_tests import JudgedTest
from nearer.adaptation.models import Models
from nearer.adaptation.passages import Passage
from nearer.adaptation.plan import Plan
from nearer.adaptation.tournament import Rung
from nearer.adaptation.views import RareWords
from nearer.adaptation.workforce import Workforce
from nearer.adaptation.writing import Writer, Written
from nearer.errors import InputError
from nearer.storage.sealed import read_sealed_json, write_sealed_json
from nearer.storage.whole import make_folder
from nearer.typed_files import as_typed
from nearer.versions import VERSION

WORK, STATE, MODEL = "work", "state.json", "model"
Say = Callable[[str], None]
Pretraining = Literal["tsdae", "teacher", "none"]


@dataclass
class Work:
    """All that the stages share."""

    out: Path
    documents: Documents
    passages: list[Passage]
    all_passages: int
    log: list[str]
    labels: Labels | None
    labels_choose: bool
    model: str
    judge: str | None
    models: Models
    plan: Plan
    seed: int
    progress: bool
    say: Say
    asked: dict[str, Any]
    remarks: list[str]
    writer: Writer | None = None
    pretrain: Pretraining | None = None
    serve_teachers: bool = False
    workforce: Workforce | None = None
    students: dict[str, Path] = field(default_factory=dict)
    rungs: list[Rung] = field(default_factory=list)
    written: list[Written] = field(default_factory=list)
    judged: list[JudgedTest] = field(default_factory=list)
    test_weights: dict[str, float] | None = None
    base_is_raw: bool = False  # far below its teachers on the made tests
    pretrained: Pretraining | None = None  # how, if students did not start from the base itself

    @cached_property
    def words(self) -> RareWords:
        """Counted once: tests and material are made by the same words."""
        return RareWords(passage.titled for passage in self.passages)

    def write(self, numbers: Sequence[int], folder: Path, limit: int, unlike: Collection[str] = ()) -> list[Written]:
        """Queries of the language model, which is let go of then."""
        assert self.writer is not None
        found = self.writer.write(self.passages, numbers, folder, limit=limit, unlike=unlike, progress=self.progress)
        self.writer.close()
        return found

    def random(self, stage: str) -> np.random.Generator:
        return np.random.default_rng([self.seed, *stage.encode()])


def sample_passages(passages: Sequence[Passage], count: int, seed: int, always: Collection[str] = ()) -> list[Passage]:
    """Whole documents, in their order. always: ids of documents that are there in any case."""
    if count >= len(passages):
        return list(passages)
    random = np.random.default_rng([seed, 1])
    by_document: dict[str, list[Passage]] = {}
    for passage in passages:
        by_document.setdefault(passage.document, []).append(passage)
    names, taken = list(by_document), set(always)
    total = sum(len(by_document[name]) for name in taken)
    for number in random.permutation(len(names)).tolist():
        if total >= count:
            break
        if names[number] not in taken:
            taken.add(names[number])
            total += len(by_document[names[number]])
    return [passage for passage in passages if passage.document in taken]


def describe_run(
    passages: Sequence[Passage],
    log: Sequence[str],
    labels: Labels | None,
    labels_choose: bool,
    settings: Mapping[str, Any],
) -> dict[str, Any]:
    """What a run is made of: it goes on only with the same. settings: models, budget and so on, by their names."""
    return {
        "nearer": VERSION,
        "documents": digest(*(f"{passage.id}\n{passage.titled}" for passage in passages)),
        "queries": digest(*log),
        "labels": None if labels is None else digest(repr((labels.queries, labels.gains, labels_choose))),
        **settings,
    }


def name_file(given: object) -> str | None:
    """What a command would call it; what was handed over in memory has no name."""
    return str(given) if isinstance(given, str | Path) else None


def digest(*parts: str) -> str:
    found = hashlib.blake2b(digest_size=16)
    for part in parts:
        found.update(f"{len(part)}:".encode() + part.encode(errors="surrogatepass"))
    return found.hexdigest()


def find_plan(out: Path, about: dict[str, Any]) -> Plan | None:
    """The plan of the first start, if there was one: a machine is never as fast twice, and a run that goes on must be
    the same run. Nothing is written."""
    state = out / WORK / STATE
    if state.is_file():
        kept = read_sealed_json(state, f"remove {out} and start again")
        earlier = kept["about"]
        named = dict.fromkeys([*about, *earlier])  # a setting that is as usual is not named
        if changed := [name for name in named if earlier.get(name) != about.get(name)]:
            raise InputError(
                f"{out}: was begun with other {', '.join(changed)}; name another folder, or remove it.", argument="out"
            )
        return as_typed(Plan, kept["plan"], str(state), mend=f"remove {out} and start again")
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise InputError(f"{out}: is there already and is no earlier adapt's; name another folder.", argument="out")
    return None


def open_work(out: Path) -> Path:
    work = out / WORK
    try:
        make_folder(work)
    except OSError as error:
        raise InputError(f"{out}: cannot be written ({error.strerror or error}).", argument="out") from None
    return work


def keep_settled_plan(work: Path, plan: Plan) -> None:
    """In place of the first one: a run that goes on must be the same run."""
    kept = read_sealed_json(work / STATE, f"remove {work.parent} and start again")
    write_sealed_json(work / STATE, {**kept, "plan": asdict(plan)})


def keep_plan(work: Path, about: dict[str, Any], plan: Plan) -> None:
    if not (work / STATE).is_file():
        write_sealed_json(work / STATE, {"about": about, "plan": asdict(plan)})
