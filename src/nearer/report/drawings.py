"""The analyses of several models of one task, drawn over each other in the models' colours."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from nearer.analysis import SideBySide, TaskAnalysis
from nearer.analysis.bias import Bin
from nearer.report.chart import Axis, Chart, Points, described, figure, linear, logarithmic, named
from nearer.report.markup import Html, count, short
from nearer.report.subjects import Subject

LEAST_COSINES, LEAST_RANKS = 0.1, 0.2  # shown at least, so that next to nothing looks like it
MOST_VALUES = 200
LEAST_VALUE = 1e-3  # of a spectrum: directions that no sentence uses leave zeros
Models = Sequence[tuple[Subject, TaskAnalysis]]


def drawn(subjects: Sequence[Subject], tasks: Sequence[TaskAnalysis], compared: SideBySide) -> Iterator[Html]:
    models = list(zip(subjects, tasks, strict=True))
    if any(task.geometry.alignment is not None for task in tasks):
        yield _alignment(models)
    yield _spectra(models)
    yield _distributions(models)
    yield _ratings(subjects, compared)
    yield _binned(
        models,
        lambda task: task.length.bins,
        "Similarity by length",
        "Mean cosine of random pairs, by their difference in length. A level line means no bias.",
        ("difference in words", "mean cosine"),
        LEAST_COSINES,
    )
    yield _binned(
        models,
        lambda task: task.overlap.excess,
        "Similarity by shared words",
        "How far pairs rank above what people say. A level line at 0 means no bias.",
        ("share of words in common", "ranks above gold"),
        LEAST_RANKS,
        rule=True,
    )
    yield _binned(
        models,
        lambda task: task.frequency.bins,
        "Similarity by word frequency",
        "Mean cosine of a sentence to all others. A level line means no bias.",
        ("mean log frequency of its words", "mean cosine"),
        LEAST_COSINES,
    )
    if any(task.rank_space is not None for task in tasks):
        yield _rank_space(models)
    if any(task.gain is not None for task in tasks):
        yield _gain(models)


def _alignment(models: Models) -> Html:
    points = [
        (subject, task.geometry.uniformity, task.geometry.alignment, task.score)
        for subject, task in models
        if task.geometry.alignment is not None
    ]
    across = linear("uniformity", [x for _, x, _, _ in points], room=0.25, least=0.2)
    chart = Chart(across, linear("alignment", [y for _, _, y, _ in points], room=0.25, least=0.05))
    for subject, x, y, _ in points:
        chart.dots([(x, y)], subject.series, radius=5)
    chart.labels(
        {_cut(subject.label) + ("" if score is None else f" {score:.1f}"): (x, y) for subject, x, y, score in points}
    )
    said = "; ".join(f"{subject.label} at uniformity {x:.2f}, alignment {y:.2f}" for subject, x, y, _ in points)
    explanation = "Lower is better for both. The figure at each point is its STS score (Spearman × 100)."
    return figure(chart, "Alignment and uniformity", explanation, label=f"Alignment over uniformity: {said}")


def _spectra(models: Models) -> Html:
    spectra = [(subject, _thinned(task.geometry.spectrum)) for subject, task in models]
    longest = max(points[-1][0] for _, points in spectra)
    across = linear("singular value, by size", [1, longest])
    chart = Chart(across, logarithmic("value", [value for _, points in spectra for _, value in points]))
    for subject, points in spectra:
        chart.line(points, subject.series, name=subject.label)
    said = "; ".join(f"{subject.label} at {short(points[len(points) // 2][1])} half way" for subject, points in spectra)
    explanation = "Singular values of the vectors, the largest set to 1. The flatter, the more directions are used."
    return figure(chart, "Spectrum", explanation, label=f"Singular values from largest to smallest: {said}")


def _distributions(models: Models) -> Html:
    """A histogram a rating group; of several models, which would hide each other, their quantiles."""
    groups = models[0][1].distributions.groups
    ends = [end for _, task in models for end in _occupied(task)]
    # the rating that people gave rises upwards, and each group stands on its own line
    middle = 0.0 if len(models) == 1 else 0.5
    ticks = tuple((row + middle, f"{group.low:g}–{group.high:g}") for row, group in enumerate(groups))
    chart = Chart(linear("similarity", ends), Axis("rating", 0, len(groups), ticks), height=250, grid=len(models) == 1)
    for number, (subject, task) in enumerate(models):
        for row, group in enumerate(task.distributions.groups):
            if group.quantiles is None:
                continue
            lowest, low, median, high, highest = group.quantiles
            level = float(row)
            if len(models) == 1:
                steps = _steps(task.distributions.bins, group.histogram, chart.across, row)
                chart.area(steps, subject.series, kind="histogram")
            else:
                level += 0.5 + min(0.6, 0.2 * (len(models) - 1)) * (0.5 - number / (len(models) - 1))
                chart.line([(lowest, level), (highest, level)], subject.series, kind="whisker")
                chart.line([(low, level), (high, level)], subject.series, kind="box")
            chart.dots([(median, level)], subject.series, kind="dot" if len(models) == 1 else "median")
    medians = "; ".join(f"{subject.label} {_medians(task)}" for subject, task in models)
    drawn_as = "the dots are medians" if len(models) == 1 else "medians, halves and nine tenths of the pairs"
    explanation = f"How similar the model finds pairs, by the rating that people gave them: {drawn_as}."
    return figure(chart, "Similarity by rating", explanation, label=f"Median similarity by rising rating: {medians}")


def _ratings(subjects: Sequence[Subject], compared: SideBySide) -> Html:
    groups = compared.rating_scores
    # the scores' own names are in the order of the models
    scores = [[list(group.scores.values())[number] for group in groups] for number in range(len(subjects))]
    known = [score for own in scores for score in own if score is not None]
    labels = [f"{group.low:.2g}–{group.high:.2g}\n{count(group.count, 'pair')}" for group in groups]
    chart = Chart(named("", labels), linear("STS: Spearman × 100", [0, *known], whole=True, least=10))
    if min([0, *known]) < 0:
        chart.rule(0)
    width = 0.76 / len(subjects)
    for number, (subject, own) in enumerate(zip(subjects, scores, strict=True)):
        for column, score in enumerate(own):
            if score is not None:
                begin = column - 0.38 + number * width
                chart.bar(begin, begin + width * 0.94, 0, score, subject.series)
    said = "; ".join(
        f"{subject.label} {', '.join('undefined' if score is None else f'{score:.1f}' for score in own)}"
        for subject, own in zip(subjects, scores, strict=True)
    )
    explanation = "How well the model orders pairs that people rated nearly alike (STS)."
    return figure(chart, "Score within ratings", explanation, label=f"Spearman by rising rating: {said}")


def _binned(
    models: Models,
    bins: Callable[[TaskAnalysis], Sequence[Bin]],
    title: str,
    explanation: str,
    names: tuple[str, str],
    least: float,
    *,
    rule: bool = False,
) -> Html:
    lines = [(subject, [((some.low + some.high) / 2, some.mean) for some in bins(task)]) for subject, task in models]
    points = [point for _, own in lines for point in own]
    levels = [level for _, level in points] + ([0.0] if rule else [])
    across = linear(names[0], [x for x, _ in points], room=0.03)
    chart = Chart(across, linear(names[1], levels, whole=True, least=least))
    if rule:
        chart.rule(0)
    for subject, own in lines:
        if own:
            chart.line(own, subject.series, name=subject.label)
            chart.dots(own, subject.series)
    said = "; ".join(described(subject.label, own) for subject, own in lines if own)
    return figure(chart, title, explanation, label=f"{names[1]} by {names[0]}: {said}")


def _rank_space(models: Models) -> Html:
    clouds: list[tuple[Subject, Points]] = []
    agreements, corpus = [], 0
    for subject, task in models:
        if (found := task.rank_space) is not None:
            clouds.append((subject, list(zip(found.cosines.tolist(), found.correlations.tolist(), strict=True))))
            agreements.append(
                f"{subject.label} {found.agreement:.2f}" if found.agreement is not None else subject.label
            )
            corpus = found.corpus
    across = linear("cosine", [x for _, points in clouds for x, _ in points])
    chart = Chart(across, linear("correlation of ranks", [y for _, points in clouds for _, y in points]))
    for subject, points in clouds:
        chart.cloud(points, subject.series)
    explanation = (
        f"Each pair, by its cosine and by how alike its sentences rank {corpus:,} others. Agreement (Spearman): "
    )
    return figure(
        chart,
        "Rank vectors and vectors",
        explanation + ", ".join(agreements) + ".",
        label=f"Correlation of ranks over cosine; agreement {', '.join(agreements)}",
    )


def _gain(models: Models) -> Html:
    lines = [
        (subject, [((group.low + group.high) / 2, group.gain) for group in task.gain.groups if group.gain is not None])
        for subject, task in models
        if task.gain is not None
    ]
    points = [point for _, own in lines for point in own]
    across = linear("similarity of the vectors", [x for x, _ in points], room=0.03)
    chart = Chart(across, linear("gain in Spearman × 100", [0, *(y for _, y in points)], whole=True, least=1))
    chart.rule(0)
    for subject, own in lines:
        if own:
            chart.line(own, subject.series, name=subject.label)
            chart.dots(own, subject.series)
    said = "; ".join(described(subject.label, own) for subject, own in lines if own)
    explanation = "What rank vectors add to STS, by the similarity of a pair."
    return figure(chart, "Gain by rank vectors", explanation, label=f"Gain by similarity: {said}")


def _occupied(task: TaskAnalysis) -> tuple[float, float]:
    """From the lowest to the highest similarity, as far as the bins tell."""
    bins, groups = task.distributions.bins, task.distributions.groups
    filled = [bin for bin in range(len(bins) - 1) if any(group.histogram[bin] for group in groups)]
    return bins[filled[0]], bins[filled[-1] + 1]


def _steps(bins: Sequence[float], histogram: Sequence[int], across: Axis, base: int) -> Points:
    """The outline of a histogram that stands on `base`, within the axis."""
    unit = 0.88 / max(histogram)
    outline: list[tuple[float, float]] = []
    for low, high, number in zip(bins, bins[1:], histogram, strict=False):
        if low >= across.low - 1e-9 and high <= across.high + 1e-9:
            outline += [(low, base + number * unit), (high, base + number * unit)]
    return [(outline[0][0], base), *outline, (outline[-1][0], base)]


def _medians(task: TaskAnalysis) -> str:
    found = [group.quantiles for group in task.distributions.groups]
    return ", ".join("none" if quantiles is None else f"{quantiles[2]:.2f}" for quantiles in found)


def _thinned(values: Sequence[float]) -> list[tuple[float, float]]:
    every = -(-len(values) // MOST_VALUES)
    kept = [*range(0, len(values) - 1, every), len(values) - 1]
    return [(float(index + 1), max(values[index], LEAST_VALUE)) for index in kept]


def _cut(label: str, most: int = 22) -> str:
    return label if len(label) <= most else f"…{label[1 - most :]}"
