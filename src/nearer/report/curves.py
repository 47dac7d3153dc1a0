"""What the runs noted step by step: losses, dev scores, uniformity, gradients, learning rate."""

from __future__ import annotations

from collections.abc import Sequence

from nearer.report.chart import Axis, Chart, Points, described, figure, figures, legend, linear, logarithmic
from nearer.report.markup import Html, count, element, listed, note, paragraph, section
from nearer.report.subjects import Subject
from nearer.runs.folder import MetricsLog, Run

MOST_POINTS = 200  # a longer line is drawn as means of neighbours, within the range of what they are means of
MOST_DOTS = 40
WIDE = 100.0  # positive values whose largest is so many times the smallest are drawn over powers of ten
NOT_PARTS = ("loss", "gradient_norm", "learning_rate")
NOT_TASKS = ("dev", "uniformity", "alignment")
EXPLAINED = {
    "loss": "What training lowers.",
    "dev": "Mean over the dev tasks × 100 (STS: Spearman; held-out records and retrieval: NDCG@10). "
    "The ring marks the kept step.",
    "uniformity": "How evenly dev sentences fill the sphere; lower is better, 0 means all alike.",
    "alignment": "Mean squared distance of dev pairs that people call alike; lower is better.",
    "gradient_norm": "Before clipping.",
}
TITLES = {"dev": "Dev score", "mlm": "MLM"}


def curves_section(subjects: Sequence[Subject]) -> Html:
    runs = [(subject, subject.run) for subject in subjects if subject.run is not None]
    if not runs:
        return Html()
    faults = [_faults(subject.label, run) for subject, run in runs if run.metrics.faults]
    drawn = [_curve(name, runs) for name in curve_names([run.metrics for _, run in runs])]
    if any("alignment" in run.metrics.names for _, run in runs):
        drawn.append(_way(runs))
    if not drawn:
        return section("curves", "Curves", *faults, paragraph("No steps are recorded yet."))
    return section("curves", "Curves", *faults, legend([subject for subject, _ in runs]), figures(*drawn))


def curve_names(logs: Sequence[MetricsLog]) -> list[str]:
    """What is drawn, in its order. The parts of a loss only where there are several, and so for dev tasks."""
    parts, tasks, noted = [], [], set()
    for log in logs:
        noted |= set(log.names)
        parts += _beside("loss", NOT_PARTS, log)
        tasks += _beside("dev", NOT_TASKS, log)
    parts, tasks = list(dict.fromkeys(parts)), list(dict.fromkeys(tasks))
    order = ["loss", *(parts if len(parts) > 1 else []), "dev", *(tasks if len(tasks) > 1 else [])]
    return [name for name in [*order, "uniformity", "alignment", "gradient_norm", "learning_rate"] if name in noted]


def curve_title(name: str) -> str:
    spaced = name.replace("_", " ")
    return TITLES.get(name, spaced[:1].upper() + spaced[1:])


def _beside(main: str, others: Sequence[str], log: MetricsLog) -> list[str]:
    """What is noted in the same lines as a figure."""
    return [name for line in log.lines if main in line.values for name in line.values if name not in others]


def _curve(name: str, runs: Sequence[tuple[Subject, Run]]) -> Html:
    noted = [(subject, run, _points(run.metrics, name)) for subject, run in runs]
    noted = [each for each in noted if each[2]]
    points = [point for _, _, some in noted for point in some]
    chart = Chart(linear("step", [step for step, _ in points]), _up(name, [value for _, value in points]))
    for subject, run, some in noted:
        lines = thinned(some)
        if len(some) > MOST_POINTS:
            edge = [(step, high) for step, _, _, high in lines] + [(step, low) for step, _, low, _ in lines[::-1]]
            chart.area(edge, subject.series, kind="range")
        means = [(step, mean) for step, mean, _, _ in lines]
        chart.line(means, subject.series, name=subject.label)
        if len(some) <= MOST_DOTS:
            chart.dots(some, subject.series, radius=2)
        if name == "dev" and run.best is not None:
            chart.dots([run.best], subject.series, radius=5, kind="ring")
    explanation = [EXPLAINED[name]] if name in EXPLAINED else []
    if chart.up.logarithmic:
        explanation.append("The axis has powers of ten.")
    said = "; ".join(described(subject.label, some) for subject, _, some in noted)
    return figure(chart, curve_title(name), " ".join(explanation), label=f"{curve_title(name)} over steps: {said}")


def _way(runs: Sequence[tuple[Subject, Run]]) -> Html:
    """Alignment over uniformity as training went on (SimCSE, Figure 2)."""
    ways = [(subject, run, _both(run.metrics)) for subject, run in runs]
    points = [point for _, _, way in ways for _, point in way]
    across = linear("uniformity", [x for x, _ in points], room=0.05)
    chart = Chart(across, linear("alignment", [y for _, y in points], room=0.05))
    said = []
    for subject, run, way in ways:
        if not way:
            continue
        own = [point for _, point in way]
        chart.line(own, subject.series)
        chart.dots(own, subject.series, radius=2)
        chart.dots(own[:1], subject.series, radius=4)
        kept = run.best[0] if run.best is not None else None
        chart.dots([point for step, point in way if step == kept], subject.series, radius=5, kind="ring")
        (x, y), (last_x, last_y) = own[0], own[-1]
        said.append(f"{subject.label} from ({x:.2f}, {y:.2f}) to ({last_x:.2f}, {last_y:.2f})")
    explanation = (
        "Lower: pairs that mean the same are nearer. Further left: sentences spread more evenly. "
        "The path starts at the large dot; the ring marks the kept step."
    )
    label = f"Alignment over uniformity as training goes on: {'; '.join(said)}"
    return figure(chart, "The path of training", explanation, label=label)


def _both(log: MetricsLog) -> list[tuple[int, tuple[float, float]]]:
    """Steps with their uniformity and alignment, where both were noted."""
    noted = [line for line in log.lines if {"uniformity", "alignment"} <= set(line.values)]
    return [(line.step, (line.values["uniformity"], line.values["alignment"])) for line in noted]


def thinned(points: Points, most: int = MOST_POINTS) -> list[tuple[float, float, float, float]]:
    """At most so many (step, mean, lowest, highest); the last step stays where it is."""
    size = -(-len(points) // most)
    thin = []
    for start in range(0, len(points), size):
        values = [value for _, value in points[start : start + size]]
        last = points[min(start + size, len(points)) - 1]
        thin.append((last[0], sum(values) / len(values), min(values), max(values)))
    return thin


def _points(log: MetricsLog, name: str) -> list[tuple[float, float]]:
    steps, values = log.series(name)
    return list(zip(map(float, steps), values, strict=True))


def _up(name: str, values: Sequence[float]) -> Axis:
    if name != "learning_rate" and min(values) > 0 and max(values) / min(values) >= WIDE:
        return logarithmic("", values)
    return linear("", [*values, *([0.0] if name == "learning_rate" else [])], whole=True, least=1e-9)


def _faults(label: str, run: Run) -> Html:
    faults = run.metrics.faults
    shown = [f"line {fault.number}: {fault.reason}" for fault in faults[:5]]
    more = [f"{len(faults) - 5:,} more"] if len(faults) > 5 else []
    return note(
        element("strong", f"{label}: "),
        f"{count(len(faults), 'line')} of metrics.jsonl could not be read and ",
        f"{'is' if len(faults) == 1 else 'are'} not drawn ({listed([*shown, *more])}).",
    )
