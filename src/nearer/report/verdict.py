"""The outcome in plain words: what was trained from what on how much text, how far it got, what it scores."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from nearer.methods import known_methods
from nearer.report.markup import Html, count, duration, element, figure, join, listed, paragraph, signed
from nearer.report.scores import Block, blocks
from nearer.report.subjects import Measured, Subject
from nearer.report.training_section import shown
from nearer.runs.folder import Run

MOST_DESCRIBED = 4  # runs told of one by one; tables tell of more


class Headline(NamedTuple):
    figure: str
    words: str


def title(subjects: Sequence[Subject]) -> str:
    names = [f"{name} ({len(own)} seeds)" if len(own) > 1 else name for name, own in _group_by_label(subjects).items()]
    return listed(names) if len(names) <= 3 else f"{', '.join(names[:2])} and {len(names) - 2} more"


def verdict(subjects: Sequence[Subject], measured: Measured) -> Html:
    parts: list[Html] = []
    if len(subjects) == 1:
        facts = list(_headlines(subjects[0], measured))
        entries = [element("div", element("dt", fact.words), element("dd", fact.figure)) for fact in facts]
        parts.append(element("dl", *entries, class_="headlines") if entries else Html())
    together = _group_by_label(subjects)
    for name, own in list(together.items())[:MOST_DESCRIBED]:
        runs = [subject.run for subject in own if subject.run is not None]
        if runs:
            label = [element("strong", f"{name}: ")] if len(together) > 1 else []
            parts.append(paragraph(*label, " ".join(filter(None, _describe(runs)))))
    if len(together) > MOST_DESCRIBED:
        parts.append(paragraph(f"{len(together)} runs and models are shown side by side; the tables have all figures."))
    parts += [paragraph(words) for words in _comparison(subjects, measured)]
    return join(parts)


def _group_by_label(subjects: Sequence[Subject]) -> dict[str, list[Subject]]:
    """Runs that differ by their seed under one name, all others by themselves."""
    together: dict[str, list[Subject]] = {}
    for subject in subjects:
        together.setdefault(subject.group or subject.label, []).append(subject)
    return together


def _headlines(subject: Subject, measured: Measured) -> Iterator[Headline]:
    run = subject.run
    if run is not None and run.best is not None:
        step, dev = run.best
        yield Headline(figure(dev), f"best dev score, at step {step:,}")
    for block in blocks(measured.scores):
        if (score := _score(block, subject.series)) is not None:
            yield Headline(figure(score), _average_name(block))
    if run is not None and "records" in run.provenance:
        yield Headline(f"{int(run.provenance['records']):,}", f"{run.settings.get('data', 'records')} to learn from")
    if run is not None and run.seconds is not None:
        yield Headline(duration(run.seconds), "of training")


def _describe(runs: Sequence[Run]) -> Iterator[str]:
    """What was done, from the first of runs that differ by their seed, and how all of them went on dev."""
    run = runs[0]
    settings = run.settings
    known = known_methods().get(str(settings.get("method")))
    method = known.facts.title if known else str(settings.get("method", run.recipe))
    taught = f", taught by {shown(_teachers(settings['teachers']))}," if settings.get("teachers") else ""
    text = _last_part(run.config.corpus)
    if "records" in run.provenance:
        text = f"{int(run.provenance['records']):,} {settings.get('data', 'records')} of {text}"
    begun = f"{method} from {_last_part(str(settings.get('model', 'a model')))}{taught} on {text}"
    steps = count(run.metrics.last_step, "step")
    if run.seconds is not None:
        steps += f" in {duration(run.seconds)}"
    yield f"{begun}, {steps}." if run.finished else f"{begun}. Not finished: {steps} so far."
    if len(runs) == 1:
        yield from _dev(run)
        return
    best = [each.best[1] for each in runs if each.best is not None]
    if len(best) > 1:
        spread = f"{figure(statistics.fmean(best))} ± {figure(statistics.stdev(best))}"
        yield f"Best on dev over {len(best)} seeds: {spread}."


def _teachers(teachers: object) -> list[str]:
    given = teachers if isinstance(teachers, list) else [teachers]
    names = [teacher.get("model", teacher) if isinstance(teacher, dict) else teacher for teacher in given]
    return [_last_part(str(name)) for name in names]


def _last_part(name: str) -> str:
    """Of a path; the facts have it whole. A name on the hub stays as it is."""
    return Path(name).name if name.startswith(("/", ".", "~")) or name.count("/") > 1 else name


def _dev(run: Run) -> Iterator[str]:
    """How the dev score went: from the untrained model to the best, and what came after."""
    steps, scores = run.metrics.series("dev")
    if run.best is None:
        yield (
            "No dev score was taken, so the last step was kept, without knowing whether it is the best."
            if run.finished
            else ""
        )
        return
    step, best = run.best
    if steps[0] == 0 and step == 0:
        yield f"Untrained: no step was better on dev than the model it started from ({figure(best)}), which was kept."
    elif steps[0] == 0:
        yield f"On dev it went from {figure(scores[0])} to {figure(best)} at step {step:,}, which was kept."
    else:
        yield f"Its best on dev is {figure(best)} at step {step:,}."
    if 0 < step < steps[-1] and best - scores[-1] >= 1:
        yield f"After that it fell, by {figure(best - scores[-1])} at the last step."


def _comparison(subjects: Sequence[Subject], measured: Measured) -> Iterator[str]:
    """Which of several is ahead, task kind by task kind; of the same data only."""
    for block in blocks(measured.scores) if len(subjects) > 1 else []:
        found = [(score, subject) for subject in subjects if (score := _score(block, subject.series)) is not None]
        if len(found) < 2:
            continue
        found.sort(key=lambda each: -each[0])
        (best, ahead), (second, behind) = found[:2]
        if round(best, 2) == round(second, 2):
            yield f"On the {_average_name(block)}, {ahead.label} and {behind.label} are level at {figure(best)}."
        else:
            difference = signed(best - second).lstrip("+")
            chance = _chance(block, ahead, behind, measured)
            yield (
                f"Highest {_average_name(block)}: {ahead.label} with {figure(best)}, "
                f"{difference} above {behind.label}{chance}."
            )


def _chance(block: Block, ahead: Subject, behind: Subject, measured: Measured) -> str:
    """The interval of a difference, where it was taken: on one task, from the first model."""
    if len(block.averaged) != 1 or not measured.analysed or measured.analysed[0] not in (ahead, behind):
        return ""
    sample = block.averaged[0].sample
    other = behind if measured.analysed[0] == ahead else ahead
    for task, differences in zip(measured.analyses[0].tasks, measured.differences, strict=True):
        if (task.task, task.split) != (sample.task, sample.split) or other not in measured.analysed:
            continue
        found = differences[measured.analysed.index(other) - 1]
        if found is not None:
            low, high = (found.low, found.high) if other == ahead else (-found.high, -found.low)
            words = f"{100 * found.confidence:g} % interval {signed(low)} … {signed(high)}"
            return f" ({words})" if found.significant else f", which may be chance ({words})"
    return ""


def _score(block: Block, series: int) -> float | None:
    """What stands for a model: its average, or the score of the one task."""
    return block.average(series) if block.averaged else None


def _average_name(block: Block) -> str:
    if len(block.averaged) == 1:
        [row] = block.averaged
        return f"score on {row.name}"
    return f"average of {len(block.averaged)} {block.kind.upper() if block.kind == 'sts' else block.kind} tasks"
