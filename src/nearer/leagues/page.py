"""The page of a league: one file that asks for nothing from anywhere, with tables to sort and filter.

`page.html.jinja` has the words, `tables.py` the tables. Here they are put together, with the curves between them.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from nearer.evaluation.tasks import kind_name
from nearer.leagues.outcome import RESAMPLES, Division, LeagueOutcome, Standing
from nearer.leagues.tables import (
    show_difference,
    show_spread,
    tabulate_agreement,
    tabulate_cost,
    tabulate_differences,
    tabulate_flips,
    tabulate_published,
    tabulate_ranks,
    tabulate_standings,
    tabulate_tests,
    tabulate_tuning,
)
from nearer.report.chart import Chart, described, figures, legend, linear
from nearer.report.chart import figure as drawing
from nearer.report.markup import Html, code, count, duration, element, join, listed
from nearer.report.template import HERE as REPORT
from nearer.report.template import STYLES, fill_template, read_markup
from nearer.storage.sealed import write_sealed_json
from nearer.storage.whole import write_whole
from nearer.versions import VERSION

HERE = Path(__file__).parent
RESULTS, PAGE = "results.json", "league.html"
LINES = 6  # methods in one chart: as many as there are colours


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
    untrained: list[str]
    tuning: Html
    published: Html
    unplaced: list[str]


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
        untrained=find_untrained(division),
        tuning=tabulate_tuning(division),
        published=tabulate_published(division),
        unplaced=[f"{each.method}: {_why_unplaced(each)}" for each in division.unplaced],
    )


def say_verdict(division: Division, baseline: str) -> Html:
    best, primary = division.best, division.primary
    if best is None or primary is None:
        return join(["No method has been scored on ", element("strong", division.backbone), " yet."])
    average = best.average_of(primary)
    parts = [element("strong", best.method), f" stands first on {kind_name(primary)} with {show_spread(average)}."]
    level = [each.method for each in division.standings[1:] if not each.is_below_best(primary)]
    if level:
        parts.append(f" {listed(level)} cannot be told from it.")
    elif len(division.standings) > 1:
        parts.append(" No other method reaches it.")
    gain = best.against_baseline.get(primary)
    if gain is not None:
        parts.append(f" It is {show_difference(gain)} points above {baseline}.")
    return join(parts)


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
        title = f"Dev score of {listed([line.label for line in group])}"
        drawn.append(join([legend(group), drawing(chart, title, label=f"Dev score over steps: {said}")]))
    return figures(*(element("div", part) for part in drawn))


def _mean_curve(standing: Standing) -> list[tuple[float, float]]:
    curves = [dict(run.curve) for run in standing.seeds if run.curve]
    steps = sorted(set.intersection(*(set(curve) for curve in curves))) if curves else []
    return [(float(step), sum(curve[step] for curve in curves) / len(curves)) for step in steps]


def find_untrained(division: Division) -> list[str]:
    """Methods of which some runs ended where they began: no step was better on the dev set."""
    kept = [
        (each.method, sum(run.best_step == 0 for run in each.seeds), len(each.seeds)) for each in division.standings
    ]
    return [f"{method} in {number} of {runs} runs" for method, number, runs in kept if number]


def _why_unplaced(standing: Standing) -> str:
    failed = all(trial.state == "failed" for trial in standing.trials)
    return "all trials failed" if failed else "not scored yet"
