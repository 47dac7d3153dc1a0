"""Scoring a model on tasks of any kind, each unique sentence of all of them encoded once.

`Results` are scores that carry their protocol: looked up, averaged, written as JSON and as a table.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rich.console import Group
from rich.table import Table
from rich.text import Text

from nearer.errors import InputError, SettingError
from nearer.evaluation.pair_task import check_figure
from nearer.evaluation.reranking_task import READINGS
from nearer.evaluation.task import Scorer, SentenceVectors, Task, TaskScore
from nearer.evaluation.tasks import given_tasks, kind_name, load_tasks, shown_name
from nearer.storage.sealed import write_sealed_json
from nearer.versions import library_versions


def evaluate(
    encoder: Scorer,
    tasks: str | Path | Task | Iterable[Any] | Mapping[str, Any] = ("sts",),
    *,
    data: str | Path | None = None,
    aggregation: str | None = None,
    correlation: str | None = None,
    reading: str | None = None,
    strict: bool = False,
    batch_size: int | None = None,
    progress: bool = False,
) -> Results:
    """Score an encoder on tasks; each unique sentence of all of them is encoded once.

    Args:
        encoder: An `Encoder`, a `RankEncoder`, or anything else with their `encode`, `pair_scores` and `score_matrix`.
        tasks: Names that `load_tasks` knows, tasks as they are, or scored pairs in memory: a list of (sentence,
            sentence, score), a data frame or a data set, by themselves, in a list of tasks, or by name, as
            {"mine": pairs}. Columns of other names: `file_task(pairs, columns=…)` makes a task of them.
        data: The folder of the published sets, for tasks of their names.
        aggregation: Of tasks made of pairs, over their subsets; None leaves it as it is, `all` unless a task says else.
        correlation: Of tasks made of pairs; None leaves it as it is, `spearman` unless a task says else.
        reading: Of reranking tasks, MTEB's v1 or v2; None leaves it as it is, `mteb-v1` unless a task says else.
        strict: What is odd in retrieval and reranking data is an error instead of being counted.
        batch_size: How many sentences pass the encoder together at most; None lets it choose.
        progress: Show a bar.

    Shapes:
        Of `score_matrix`, with vectors (first, dimension) and (second, dimension): (first, second). Of `pair_scores`,
        with two times (pairs, dimension): (pairs,).

    Examples:
        >>> import nearer
        >>> encoder = nearer.Encoder.load("wiki-mini", pooling="mean")
        >>> pairs = [("It rains.", "It is raining.", 5), ("It rains.", "He has lunch.", 0)]
        >>> nearer.evaluate(encoder, {"mine": pairs}).by_name()
        {'mine': 100.0}
    """
    check_figure("spearman" if correlation is None else correlation, "all" if aggregation is None else aggregation)
    if reading not in (None, *READINGS):
        raise SettingError(f"reading: {reading!r} is not one of {', '.join(READINGS)}.")
    given = given_tasks(tasks)
    asked = {"aggregation": aggregation, "correlation": correlation, "reading": reading}
    options = {name: value for name, value in asked.items() if value is not None}
    loaded = [task.apply_options(options) for task in load_tasks(given, data, strict=strict)]
    started = time.perf_counter()
    vectors = encode_once(encoder, loaded, batch_size=batch_size, progress=progress)
    return score_tasks(encoder, loaded, vectors, started)


def encode_once(
    encoder: Scorer, tasks: Sequence[Task], *, batch_size: int | None = None, progress: bool = False
) -> SentenceVectors:
    """The vectors of all sentences of the tasks, each unique one encoded once."""
    unique = dict.fromkeys(sentence for task in tasks for sentence in task.sentences())
    rows = {sentence: row for row, sentence in enumerate(unique)}
    return SentenceVectors(rows, encoder.encode(list(rows), batch_size=batch_size, progress=progress))


def score_tasks(encoder: Scorer, tasks: Sequence[Task], vectors: SentenceVectors, started: float) -> Results:
    """started: when the encoding began, by `time.perf_counter`."""
    scores = [task.score(encoder, vectors) for task in tasks]
    return Results(
        model=encoder.name,
        protocol=_protocol(encoder),
        scores=scores,
        sentences=len(vectors.rows),
        seconds=time.perf_counter() - started,
        libraries=library_versions(),
    )


def _protocol(encoder: Scorer) -> dict[str, Any]:
    """What holds for all tasks; a task's own part of it is in its score."""
    settings = encoder.settings
    template = getattr(settings, "template", None)  # static words have none
    return {
        "similarity": getattr(encoder, "scoring", "cosine"),
        "pooling": settings.pooling,
        "head": getattr(encoder, "head", None) is not None and settings.pooling != "cls_before_head",
        "max_length": settings.max_length,
        "text_normalisation": settings.text_normalisation,
        **({} if template is None else {"template": template.text}),
        "precision": getattr(encoder, "precision", "float32"),
        **({"prompt": settings.default_prompt} if settings.prompt(None) else {}),
        **({"truncate_dim": settings.truncate_dim} if settings.truncate_dim else {}),
    }


@dataclass(frozen=True)
class Results:
    """What an evaluation found: the scores, and everything needed to repeat it.

    Attributes:
        model: The model's folder or name.
        protocol: What holds for all tasks; what a task adds to it stands in its score.
        scores: One for each task, in the order in which they were asked for.
        sentences: How many different sentences were encoded.
        seconds: How long encoding and scoring took.
        libraries: The versions of the libraries that computed them.

    Examples:
        >>> import nearer
        >>> encoder = nearer.Encoder.load("wiki-mini", pooling="mean")
        >>> results = nearer.evaluate(encoder, ["everyday"])
        >>> round(results["everyday"], 1), results.average == results["everyday"]
        (48.3, True)
    """

    model: str
    protocol: dict[str, Any]
    scores: list[TaskScore]
    sentences: int
    seconds: float
    libraries: dict[str, str]

    @property
    def kinds(self) -> dict[str, list[TaskScore]]:
        """The scores by kind of task, both in the order in which they were asked for."""
        kinds: dict[str, list[TaskScore]] = {}
        for score in self.scores:
            kinds.setdefault(score.kind, []).append(score)
        return kinds

    @property
    def averages(self) -> dict[str, float | None]:
        """For each kind the mean over its tasks, undefined if one of them is."""
        return {kind: _mean([score.score for score in scores]) for kind, scores in self.kinds.items()}

    @property
    def average(self) -> float | None:
        """The mean over the tasks; undefined if one of them is, and over tasks of several kinds."""
        averages = list(self.averages.values())
        return averages[0] if len(averages) == 1 else None

    def __getitem__(self, task: str) -> float | None:
        """A task's figure, by its name as asked for (`stsb-dev`) or as shown (`STS-B`, `STS-B dev`).

        A kind before it tells tasks of one name apart: `sts:STS-B`.
        """
        wanted = {task.lower(), shown_name(task).lower()}
        found = [score for score in self.scores if wanted & {name.lower() for name in _names(score)}]
        if len(found) != 1:
            raise KeyError(f"{task!r} is {len(found) or 'none'} of the tasks: {', '.join(self.by_name())}")
        return found[0].score

    def by_name(self) -> dict[str, float | None]:
        """Every task's figure. Split, kind and number stand in its name only where other tasks share the rest."""
        named = {}
        names = [_names(score) for score in self.scores]
        for number, score in enumerate(self.scores):
            own = [name for form, name in enumerate(names[number]) if [each[form] for each in names].count(name) == 1]
            named[[*own, f"{names[number][-1]} {number + 1}"][0]] = score.score
        return named

    def to_dict(self) -> dict[str, Any]:
        scores = [{**asdict(score), "score": score.score} for score in self.scores]
        return {**asdict(self), "scores": scores, "average": self.average, "averages": self.averages}

    def to_json(self) -> str:
        return json.dumps(self.to_dict(), indent=2, ensure_ascii=False, allow_nan=False)

    def write_json(self, path: str | Path) -> None:
        try:
            write_sealed_json(Path(path), json.loads(self.to_json()))
        except OSError as error:
            raise InputError(f"{path}: cannot be written ({error.strerror}).") from None

    def table(self) -> Group:
        """The figures for a terminal, with the protocol above and below."""
        return results_table(self)


def _names(score: TaskScore) -> tuple[str, ...]:
    """What a task goes by, the shortest first."""
    full = f"{score.task} {score.split}"
    return score.task, full, f"{score.kind}:{score.task}", f"{score.kind}:{full}"


def _mean(values: list[float | None]) -> float | None:
    defined = [value for value in values if value is not None]
    return sum(defined) / len(defined) if len(defined) == len(values) else None


IN_TITLE = ("correlation", "aggregation")


def results_table(results: Results) -> Group:
    """The measure is named above the table where all tasks have one, else beside each score."""
    one_measure = len({(score.kind, score.measure) for score in results.scores}) == 1
    table = Table()
    further = any(_further(score) for score in results.scores)
    columns = ("task", "split", "count", *([] if one_measure else ["measure"]), "score", *(["also"] if further else []))
    for column in columns:
        table.add_column(column, justify="right" if column in ("count", "score") else "left")
    for kind, scores in results.kinds.items():
        for score in scores:
            measure = [] if one_measure else [Text(f"{kind_name(kind)}: {score.measure}")]
            count = f"{score.count:,} {score.unit}"
            also = [Text(_further(score))] if further else []
            table.add_row(Text(score.task), Text(score.split), count, *measure, _shown(score), *also)
        table.add_section()
        if len(scores) > 1:
            name = "average" if len(results.kinds) == 1 else f"{kind_name(kind)} average"
            filling = [""] * (columns.index("score") - 1)
            table.add_row(name, *filling, _percent(results.averages[kind]), style="bold", end_section=True)
    title = f"{results.model}  ({_title(results.scores[0])})" if one_measure else results.model
    # beside the table, not its title and caption: those are folded to its width
    return Group(Text(title, style="italic"), table, Text(_caption(results, one_measure=one_measure), style="dim"))


def _further(score: TaskScore) -> str:
    """Its other figures; of pairs they are the same correlation in other readings, which are in the JSON."""
    if "aggregation" in score.protocol:
        return ""
    others = {name: figure for name, figure in score.figures.items() if name != score.measure and figure is not None}
    return ", ".join(f"{name} {figure:.2f}" for name, figure in others.items())


def _shown(score: TaskScore) -> str:
    return (score.remark or "undefined") if score.score is None else _percent(score.score)


def _percent(value: float | None) -> str:
    return "undefined" if value is None else f"{value:.2f}"


def _title(score: TaskScore) -> str:
    """`STS: Spearman × 100, all`; of tasks without an aggregation just `retrieval: ndcg@10 × 100`."""
    kind = kind_name(score.kind)
    if "aggregation" in score.protocol:
        return f"{kind}: {score.protocol['correlation'].capitalize()} × 100, {score.protocol['aggregation']}"
    return f"{kind}: {score.measure} × 100"


def _caption(results: Results, *, one_measure: bool) -> str:
    """The protocol of the evaluation, and below it what kinds of tasks, or single ones, add to it."""
    common = {name: value for name, value in results.protocol.items() if (name, value) != ("similarity", "cosine")}
    lines = [f"{_facts(common)}; {results.sentences:,} unique sentences in {results.seconds:.1f} s"]
    named = dict(zip(results.by_name(), results.scores, strict=True))
    for kind in results.kinds:
        tasks_of: dict[str, list[str]] = {}
        for task, score in named.items():
            if score.kind == kind:
                own = {name: value for name, value in score.protocol.items() if not (one_measure and name in IN_TITLE)}
                tasks_of.setdefault(_facts(own), []).append(task)
        for facts, tasks in tasks_of.items():
            if facts:
                lines.append(f"{kind if len(tasks_of) == 1 else ', '.join(tasks)}: {facts}")
    lines += [f"{task}: {score.remark}" for task, score in named.items() if _says_more(score)]
    return "\n".join(lines)


def _says_more(score: TaskScore) -> bool:
    """Whether its remark is about what is shown: not about another figure's being undefined."""
    return score.score is not None and bool(score.remark) and not score.remark.startswith("undefined")


def _facts(protocol: dict[str, Any]) -> str:
    shown = {name: value for name, value in protocol.items() if value is not False}
    return ", ".join(name if value is True else f"{name} {value}" for name, value in shown.items())
