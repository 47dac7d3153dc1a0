"""Building a data set of ranking lists: start sentences, an engine that continues them, and a folder that keeps all.

    building = construct_lists(source, InProcess(make_engine), settings, "lists")

Everything a list follows from is in the folder's header; the folder also keeps the start sentences (`starts.jsonl`), so
going on after an interruption chooses none anew. Lists that were not finished are begun again.

`OverRay` grows lists over Ray Data: start sentences as a data set, and workers that each hold an engine of their own.
The lists are those of one process, because each answer follows from its request and the seed alone. Finished lists come
back a share at a time, so an interruption costs the shares that workers are at.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol, Self

from nearer.construct.construction import Construction, Format
from nearer.construct.list_growth import GrownList, ListSettings, grow_lists
from nearer.construct.requests import Engine
from nearer.construct.start_sentences import Start, Starts, StartSource, read_starts, write_starts
from nearer.errors import InputError
from nearer.ray_runtime import RayWorkforce, translate_worker_errors
from nearer.terminal import console

KIND = "ranking lists"
STARTS = "starts.jsonl"
GIVE_UP_AFTER = 32  # if the first so many lists are rejected and no other is kept, the rest would fare no better
LONGEST_SHOWN = 200

MakeEngine = Callable[[], Engine]


@dataclass
class Pace:
    """What was generated since `begun`, by this process or its workers."""

    begun: float = field(default_factory=time.monotonic)
    sentences: int = 0
    tokens: int = 0

    @property
    def seconds(self) -> float:
        return time.monotonic() - self.begun

    def __str__(self) -> str:
        rate = self.tokens / max(self.seconds, 1e-9)
        return f"{self.sentences:,} sentences, {self.tokens:,} tokens ({rate:,.0f}/s)"


class Progress:
    """How far the building has come: lists, sentences and tokens. Without a bar it only counts."""

    def __init__(self) -> None:
        self.pace = Pace()

    def generated(self, sentences: int, tokens: int) -> None:
        self.pace.sentences += sentences
        self.pace.tokens += tokens

    def ended(self) -> None:
        """One list more."""


@contextmanager
def list_progress(done: int, total: int, *, shown: bool) -> Iterator[Progress]:
    """shown: with a bar on standard error."""
    if not shown:
        yield Progress()
        return
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bar

    columns = (
        TextColumn("ranking lists"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[pace]}"),
        TimeRemainingColumn(elapsed_when_finished=True),
    )
    with Bar(*columns, console=console(stderr=True)) as bar:
        task = bar.add_task("", total=total, completed=done, pace="")

        class Shown(Progress):
            def generated(self, sentences: int, tokens: int) -> None:
                super().generated(sentences, tokens)
                bar.update(task, pace=str(self.pace))

            def ended(self) -> None:
                bar.advance(task)

        yield Shown()


class Workforce(Protocol):
    """Who grows the lists: this process, or others."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None: ...

    def identity(self) -> dict[str, str]:
        """Of the engine."""
        ...

    def grow(self, starts: Sequence[Start], settings: ListSettings, progress: Progress) -> Iterator[GrownList]: ...


class InProcess:
    def __init__(self, make_engine: MakeEngine) -> None:
        self.engine = make_engine()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        pass

    def identity(self) -> dict[str, str]:
        return self.engine.identity()

    def grow(self, starts: Sequence[Start], settings: ListSettings, progress: Progress) -> Iterator[GrownList]:
        return grow_lists(self.engine, starts, settings, heard=lambda answer: progress.generated(1, answer.tokens))


@dataclass(frozen=True)
class ListsResult:
    """What came out, in all runs together; pace: of this run. cut: kept though shorter than all steps; short: clusters
    with fewer sentences than were asked for."""

    data: Path
    lists: int
    sentences: int
    cut: int
    rejected: Counter[str]
    starts: int
    short: int
    built: int
    pace: Pace


def construct_lists(
    source: StartSource,
    workforce: Workforce,
    settings: ListSettings,
    out: str | Path,
    *,
    seed: int = 0,
    limit: int | None = None,
    format: Format = "jsonl",
    notes: Mapping[str, Any] | None = None,
    progress: bool = False,
) -> ListsResult:
    """Build what is missing in the folder `out`, at most the first `limit` lists, and write the data set.

    Equal settings and seeds give equal files, however many lists grow at once and however often it was interrupted (as
    far as the engine's rounding does not depend on what it computes together). A limit is no part of this: a later run
    with another one, or none, goes on. notes: facts for the header that may differ from run to run.
    """
    about = {
        "kind": KIND,
        **source.identity(),
        "method": settings.method,
        "steps": settings.steps,
        "minimum_steps": settings.minimum_steps,
        "guidance": settings.guidance,
        "rules": settings.rules,
        "first_line": settings.first_line,
        "template": settings.template.text,
        "seed": seed,
        "engine": workforce.identity(),
    }
    with Construction(out, about, notes=notes, format=format) as building:
        starts = _starts(building.folder / STARTS, source, progress)
        wanted = starts.members[:limit]
        missing = [start for start in wanted if start.number not in building.done]
        with list_progress(len(wanted) - len(missing), len(wanted), shown=progress) as shown:
            try:
                _collect(workforce.grow(missing, settings, shown), missing, building, shown)
            except KeyboardInterrupt:
                raise KeyboardInterrupt(
                    f"stopped; {len(building.done):,} finished lists are kept in {building.folder}; "
                    "the same command goes on there"
                ) from None
        return _finished(building, starts, settings, len(missing), shown.pace)


def _starts(path: Path, source: StartSource, progress: bool) -> Starts:
    if path.exists():
        return read_starts(path)
    starts = source.choose(progress=progress)
    write_starts(starts, path)
    return starts


def _collect(grown: Iterable[GrownList], missing: Sequence[Start], building: Construction, shown: Progress) -> None:
    by_number = {start.number: start for start in missing}
    # lists that fail end early, so the first to end say nothing about the others: the first to begin do
    judges = {start.number for start in missing[:GIVE_UP_AFTER]}
    for found in grown:
        start = by_number[found.number]
        if found.rejected is None:
            record = {"sentences": found.sentences, "start": start.index, "cluster": start.cluster}
            building.add(found.number, record)
        else:
            building.reject(found.number, found.rejected, {"sentences": found.sentences, "answer": found.answer})
        shown.ended()
        judges.discard(found.number)
        if not judges and len(building.done) == building.rejected.total():
            raise _all_rejected(building, found)


def _all_rejected(building: Construction, last: GrownList) -> InputError:
    reasons = ", ".join(f"{reason} {count:,}" for reason, count in building.rejected.most_common())
    answer = last.answer if len(last.answer) <= LONGEST_SHOWN else last.answer[: LONGEST_SHOWN - 1] + "…"
    return InputError(
        f"{building.folder}: all of the first {len(building.done):,} lists were rejected ({reasons}); the model's last "
        f"answer was {answer!r}. Another model, template (--template) or limit (--max-new-tokens) may help; "
        "--first-line takes one line of an answer, --minimum-steps keeps shorter lists. All answers are in its "
        "journal, and the same command tries the next lists."
    )


def _finished(building: Construction, starts: Starts, settings: ListSettings, built: int, pace: Pace) -> ListsResult:
    lengths = [len(record["sentences"]) for _, record in building.records()]
    cut = sum(length <= settings.steps for length in lengths)
    summary = {"sentences": sum(lengths), "cut": cut, "starts": len(starts.members), "short_clusters": starts.short}
    data = building.finish(summary)
    return ListsResult(
        data=data,
        lists=len(lengths),
        sentences=sum(lengths),
        cut=cut,
        rejected=building.rejected,
        starts=len(starts.members),
        short=starts.short,
        built=built,
        pace=pace,
    )


SHARE_OF_BATCHES = 4  # a worker's share: so many times the lists that its engine holds at once


class OverRay(RayWorkforce):
    """batch: how many lists an engine grows at once."""

    def __init__(self, make_engine: MakeEngine, *, workers: int, batch: int, gpus: float | None = None) -> None:
        super().__init__("building lists with --engine ray", workers=workers, gpus=gpus)
        self.make_engine = make_engine
        self.share = SHARE_OF_BATCHES * batch

    def identity(self) -> dict[str, str]:
        """Told by a worker, since this process may lack the GPU for it."""
        import ray

        task = ray.remote(**self.resources)(_identity)
        with translate_worker_errors():
            found: dict[str, str] = ray.get(task.remote(self.make_engine))
        return found

    def grow(self, starts: Sequence[Start], settings: ListSettings, progress: Progress) -> Iterator[GrownList]:
        import ray

        if not starts:
            return
        rows = [asdict(start) for start in starts]
        # a block is what one worker is given at a time
        shared = ray.data.from_items(rows, override_num_blocks=max(1, -(-len(rows) // self.share)))
        grown = shared.map_batches(
            _Worker,
            fn_constructor_args=(self.make_engine, settings),
            batch_size=self.share,
            compute=ray.data.ActorPoolStrategy(size=self.workers, max_tasks_in_flight_per_actor=1),
            **self.resources,
        )
        with translate_worker_errors():
            for row in grown.iter_rows():
                found = GrownList(**json.loads(row["grown"]))
                progress.generated(len(found.sentences) - 1, found.tokens)
                yield found


class _Worker:
    """One of the processes: loads the engine once, then grows share after share."""

    def __init__(self, make_engine: MakeEngine, settings: ListSettings) -> None:
        self.engine = make_engine()
        self.settings = settings

    def __call__(self, share: dict[str, Any]) -> dict[str, list[str]]:
        starts = [
            Start(int(number), str(sentence), int(index), None)
            for number, sentence, index in zip(share["number"], share["sentence"], share["index"], strict=True)
        ]
        return {"grown": [json.dumps(asdict(found)) for found in grow_lists(self.engine, starts, self.settings)]}


def _identity(make_engine: MakeEngine) -> dict[str, str]:
    return make_engine().identity()
