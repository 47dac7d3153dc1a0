"""The page of a league: one file that asks for nothing from anywhere, with tables to sort and filter.

`page.html.jinja` has the words. Here are the tables and drawings that it puts between them, and nothing that the
outcome does not say.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from nearer.evaluation.tasks import kind_name
from nearer.league.outcome import RESAMPLES, Division, LeagueOutcome, Standing
from nearer.league.statistics import Difference, Spread
from nearer.report.chart import Chart, described, figures, interval, legend, linear
from nearer.report.chart import figure as drawing
from nearer.report.markup import (
    LACKING,
    Html,
    cell,
    code,
    count,
    duration,
    element,
    figure,
    join,
    listed,
    signed,
    table,
)
from nearer.report.template import HERE as REPORT
from nearer.report.template import STYLES, fill_template, read_markup
from nearer.storage.sealed import write_sealed_json
from nearer.storage.whole import write_whole
from nearer.sweeps.grid import point_name
from nearer.versions import VERSION

HERE = Path(__file__).parent
RESULTS, PAGE = "results.json", "league.html"
LINES = 6  # methods in one chart: as many as there are colours
MIB = 2**20


def write_outcome(outcome: LeagueOutcome) -> None:
    """`results.json` and `league.html`, in the league's folder."""
    write_sealed_json(outcome.folder / RESULTS, outcome.to_dict())
    write_whole(outcome.folder / PAGE, render_page(outcome))


@dataclass(frozen=True)
class ShownDivision:
    """A division as the page shows it; what it has nothing for is empty."""

    number: int
    backbone: str
    verdict: Html
    standings: Html
    tests: list[tuple[str, Html]]
    differences: list[tuple[str, Html]]
    ranks: Html
    flips: list[tuple[str, Html]]
    agreement: Html
    cost: Html
    curves: Html
    tuning: Html
    published: Html
    unplaced: list[Standing]


def render_page(outcome: LeagueOutcome) -> str:
    plan = outcome.file.plan
    return fill_template(
        HERE / "page.html.jinja",
        {"count": count, "duration": duration, "listed": listed, "code": code},
        title=plan.title or f"{count(len(plan.methods), 'method')} on {listed(list(plan.backbones))}",
        plan=plan,
        baseline=plan.baseline_method,
        runs=outcome.runs,
        seconds=outcome.seconds,
        divisions=[show_division(division, outcome, number) for number, division in enumerate(outcome.divisions)],
        failures=outcome.failures,
        resamples=RESAMPLES,
        file=outcome.file.path.name,
        text=outcome.file.text,
        command=f"nearer league {outcome.file.path.name} --out {outcome.folder.name}",
        version=VERSION,
        style=read_markup(*STYLES, HERE / "page.css"),
        script=read_markup(REPORT / "page.js", HERE / "page.js"),
    )


def show_division(division: Division, outcome: LeagueOutcome, number: int) -> ShownDivision:
    baseline = outcome.file.plan.baseline_method
    kinds = list(division.kinds) if division.standings else []
    return ShownDivision(
        number=number,
        backbone=division.backbone,
        verdict=say_verdict(division, baseline),
        standings=tabulate_standings(division, baseline) if kinds else Html(),
        tests=[(kind_name(kind), tabulate_tests(division, kind)) for kind in kinds if len(division.kinds[kind]) > 1],
        differences=[(kind_name(kind), tabulate_differences(division, kind, baseline)) for kind in kinds],
        ranks=tabulate_ranks(division) if kinds else Html(),
        flips=[(kind_name(kind), tabulate_flips(division, kind)) for kind in kinds if len(division.flips[kind]) > 1],
        agreement=tabulate_agreement(division) if division.agreement and len(division.standings) > 1 else Html(),
        cost=tabulate_cost(division) if kinds else Html(),
        curves=draw_curves(division),
        tuning=tabulate_tuning(division),
        published=tabulate_published(division),
        unplaced=division.unplaced,
    )


def say_verdict(division: Division, baseline: str) -> Html:
    best, primary = division.best, division.primary
    if best is None or primary is None:
        return join(["No method has been scored on ", element("strong", division.backbone), " yet."])
    average = best.average_of(primary)
    parts = [element("strong", best.method), f" stands first on {kind_name(primary)} with {_spread(average)}."]
    level = [each.method for each in division.standings[1:] if not _is_certain(each.against_best.get(primary))]
    if level:
        parts.append(f" {listed(level)} cannot be told from it.")
    elif len(division.standings) > 1:
        parts.append(" No other method reaches it.")
    gain = best.against_baseline.get(primary)
    if gain is not None:
        parts.append(f" It is {_difference(gain)} points above {baseline}.")
    return join(parts)


def tabulate_standings(division: Division, baseline: str) -> Html:
    primary = division.primary or ""
    head = ["method", *map(kind_name, division.kinds), f"less {baseline}", "dev", "ms a step", "needs"]
    best = {kind: max(_means(division, kind), default=None) for kind in division.kinds}
    rows = []
    for standing in division.standings:
        averages = []
        for kind in division.kinds:
            found = standing.average_of(kind)
            top = found is not None and found.mean == best[kind]
            averages.append(cell(_spread(found), kind="best" if top else None))
        difference = standing.against_baseline.get(primary)
        rows.append(
            [
                standing.method,
                *averages,
                LACKING if difference is None else _difference(difference),
                _spread(standing.dev),
                figure(_milliseconds(standing), 1),
                cell(standing.needs, kind="words"),
            ]
        )
    return table("Averages over the tests of each kind × 100, with 95 % intervals over seeds", head, rows)


def tabulate_tests(division: Division, kind: str) -> Html:
    """Every test of a kind; the best of each stands out."""
    names = division.kinds[kind]
    spreads = {each.method: {name: each.spread_of(name) for name in names} for each in division.standings}
    best = {name: max((found[name].mean for found in spreads.values() if found[name]), default=None) for name in names}  # type: ignore[union-attr]
    rows = []
    for standing in division.standings:
        cells = [standing.method]
        for name in names:
            found = spreads[standing.method][name]
            top = found is not None and found.mean == best[name]
            cells.append(cell(_spread(found), kind="best" if top else None))
        rows.append([*cells, _spread(standing.average_of(kind))])
    measures = listed(list(dict.fromkeys(division.measures[name] for name in names)))
    return table(
        f"{kind_name(kind)}: {measures} × 100, with 95 % intervals over seeds", ["method", *names, "average"], rows
    )


def tabulate_differences(division: Division, kind: str, baseline: str) -> Html:
    found = [each for standing in division.standings for each in _both(standing, kind) if each is not None]
    known = [end for each in found for end in (each.low, each.high) if end is not None]
    axis = (min([0.0, *known]), max([0.0, *known]))
    rows = []
    for standing in division.standings:
        cells = [standing.method, _spread(standing.average_of(kind))]
        for difference in _both(standing, kind):
            cells += _difference_cells(difference, axis)
        rows.append(cells)
    head = ["method", "average", f"less {baseline}", "interval", "p", "less the best", "interval", "p"]
    return table(f"{kind_name(kind)}: differences of averages", head, rows)


def _both(standing: Standing, kind: str) -> tuple[Difference | None, Difference | None]:
    return standing.against_baseline.get(kind), standing.against_best.get(kind)


def _difference_cells(difference: Difference | None, axis: tuple[float, float]) -> list[str]:
    if difference is None:
        return [LACKING, LACKING, LACKING]
    shown = cell(signed(difference.difference), kind="best" if difference.is_certain else None)
    if difference.low is None or difference.high is None:
        return [shown, "one seed", LACKING]
    words = f"{signed(difference.low)} to {signed(difference.high)}"
    label = f"{signed(difference.difference)}, from {words}"
    drawn = interval(difference.difference, (difference.low, difference.high), axis, label=label)
    return [shown, cell(words, drawn), figure(difference.p_value, 3)]


def tabulate_ranks(division: Division) -> Html:
    """The rank by the means, and from which to which rank it goes seed by seed."""
    rows = []
    for standing in division.standings:
        cells = [standing.method]
        for kind in division.kinds:
            rank = standing.ranks.get(kind)
            cells += [LACKING, LACKING] if rank is None else [str(rank.rank), f"{rank.best:g} to {rank.worst:g}"]
        rows.append(cells)
    head = [part for kind in division.kinds for part in (kind_name(kind), "by seed")]
    agreement = [f"{kind_name(kind)} {figure(tau)}" for kind, tau in division.seed_agreement.items() if tau is not None]
    told = f" (Kendall's τ of the orders of two seeds: {', '.join(agreement)})" if agreement else ""
    return table(f"Ranks{told}", ["method", *head], rows)


def tabulate_flips(division: Division, kind: str) -> Html:
    flips = division.flips[kind]
    methods = [each.method for each in division.standings if each.method in flips]
    rows = []
    for one in methods:
        shares = [LACKING if one == other else f"{100 * flips[one][other]:.0f} %" for other in methods]
        rows.append([one, *shares])
    return table(f"{kind_name(kind)}: how often the order of two single runs flips", ["method", *methods], rows)


def tabulate_agreement(division: Division) -> Html:
    rows = [[f"{kind_name(first)} and {kind_name(second)}", figure(tau)] for first, second, tau in division.agreement]
    caption = "Does the order hold on other kinds of tests? (Kendall's τ: 1 the same order, −1 the reverse)"
    return table(caption, ["kinds", "τ"], rows)


def tabulate_cost(division: Division) -> Html:
    rows = []
    for standing in division.standings:
        memory = standing.peak_memory
        extra = [standing.starts_from] * (standing.starts_from != division.model)
        rows.append(
            [
                standing.method,
                figure(_milliseconds(standing), 1),
                LACKING if memory is None else f"{memory / MIB:,.0f}",
                f"{standing.batch_size:,}",
                cell(standing.data, kind="words"),
                cell(", ".join(standing.teachers) or "none", kind="words"),
                cell(", ".join(extra) or "the backbone", kind="words"),
            ]
        )
    head = ["method", "ms a step", "MiB at most", "batch", "records", "teachers", "starts from"]
    return table("What a method costs, and what it needs", head, rows)


@dataclass(frozen=True)
class Line:
    """A method's line in a chart: the mean of its seeds' dev scores."""

    label: str
    series: int
    points: list[tuple[float, float]]


def draw_curves(division: Division) -> Html:
    """Dev scores over steps, six methods in a chart, in the order of the standings."""
    lines = [
        Line(standing.method, number % LINES, _mean_curve(standing))
        for number, standing in enumerate(division.standings)
        if _mean_curve(standing)
    ]
    drawn = []
    for start in range(0, len(lines), LINES):
        group = lines[start : start + LINES]
        points = [point for line in lines for point in line.points]  # one axis for all charts
        chart = Chart(linear("step", [x for x, _ in points]), linear("", [y for _, y in points], whole=True))
        for line in group:
            chart.line(line.points, line.series, name=line.label)
        said = "; ".join(described(line.label, line.points) for line in group)
        title = f"Dev score, {listed([line.label for line in group])}"
        drawn.append(join([legend(group), drawing(chart, title, label=f"Dev score over steps: {said}")]))
    return figures(*(element("div", part) for part in drawn))


def _mean_curve(standing: Standing) -> list[tuple[float, float]]:
    curves = [dict(run.curve) for run in standing.seeds if run.curve]
    steps = sorted(set.intersection(*(set(curve) for curve in curves))) if curves else []
    return [(float(step), sum(curve[step] for curve in curves) / len(curves)) for step in steps]


def tabulate_tuning(division: Division) -> Html:
    rows = []
    for standing in (*division.standings, *division.unplaced):
        for number, trial in enumerate(standing.trials):
            settings = element(
                "strong" if trial.chosen else "span", point_name(trial.settings) or "the recipe as it is"
            )
            marks = ["recipe"] * (number == 0) + ["chosen"] * trial.chosen
            marked = join([settings, *(element("span", mark, class_="mark") for mark in marks)], " ")
            step = LACKING if trial.best_step is None else f"{trial.best_step:,}"
            said = figure(trial.dev) if trial.state == "finished" else trial.state
            rows.append([standing.method, cell(marked, kind="words"), said, step])
    return table(
        "All trials: what was tried, and what the dev set said", ["method", "settings", "dev", "best step"], rows
    )


def tabulate_published(division: Division) -> Html:
    rows = []
    for standing in division.standings:
        for row in standing.published:
            if row.kind in division.kinds:
                ours = standing.average_of(row.kind)
                tests = ", ".join(f"{name} {value:.2f}" for name, value in row.figures.items())
                rows.append(
                    [
                        standing.method,
                        cell(kind_name(row.kind), kind="words"),
                        _spread(ours),
                        cell(figure(row.average), kind="published"),
                        cell(f"{row.model}, {row.backbone}", kind="words"),
                        cell(f"{row.source}; {row.protocol}", kind="words"),
                        cell(tests, kind="words"),
                    ]
                )
    head = ["method", "tests", "here", "published", "of", "source", "of which"]
    return table("The published figure beside ours", head, rows) if rows else Html()


def _means(division: Division, kind: str) -> list[float]:
    return [found.mean for standing in division.standings if (found := standing.average_of(kind)) is not None]


def _milliseconds(standing: Standing) -> float | None:
    return None if standing.step_seconds is None else 1000 * standing.step_seconds


def _spread(found: Spread | None) -> str:
    if found is None:
        return LACKING
    return figure(found.mean) if found.half is None else f"{figure(found.mean)} ± {figure(found.half)}"


def _difference(found: Difference) -> str:
    if found.low is None or found.high is None:
        return signed(found.difference)
    return f"{signed(found.difference)} ({signed(found.low)} to {signed(found.high)})"


def _is_certain(difference: Difference | None) -> bool:
    return difference is not None and difference.is_certain
