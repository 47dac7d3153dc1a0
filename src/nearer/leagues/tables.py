"""The tables of a league's page; nothing stands in them that the outcome does not say."""

from __future__ import annotations

from statistics import fmean

from nearer.evaluation.tasks import kind_name
from nearer.leagues.outcome import Division, Standing
from nearer.leagues.statistics import Difference, Rank, Spread
from nearer.report.chart import interval
from nearer.report.markup import LACKING, Html, cell, element, figure, join, listed, signed, table
from nearer.sweeps.grid import point_name

MIB = 2**20


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
            averages.append(cell(show_spread(found), kind="best" if top else None))
        difference = standing.against_baseline.get(primary)
        rows.append(
            [
                standing.method,
                *averages,
                LACKING if difference is None else show_difference(difference),
                show_spread(standing.dev),
                figure(_milliseconds(standing), 1),
                cell(standing.needs, kind="words"),
            ]
        )
    caption = "Averages over the tests of each kind × 100, with 95 % intervals over seeds"
    return table(caption, head, rows, words=["needs"])


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
            cells.append(cell(show_spread(found), kind="best" if top else None))
        rows.append([*cells, show_spread(standing.average_of(kind))])
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
        cells = [standing.method, show_spread(standing.average_of(kind))]
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
            cells += [LACKING, LACKING] if rank is None else [str(rank.rank), _from_to(rank)]
        rows.append(cells)
    head = [part for kind in division.kinds for part in (kind_name(kind), "by seed")]
    agreement = [f"{kind_name(kind)} {figure(tau)}" for kind, tau in division.seed_agreement.items() if tau is not None]
    told = f" (Kendall's τ of the orders of two seeds: {', '.join(agreement)})" if agreement else ""
    return table(f"Ranks{told}", ["method", *head], rows)


def _from_to(rank: Rank) -> str:
    return f"{rank.best:g}" if rank.best == rank.worst else f"{rank.best:g} to {rank.worst:g}"


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
    return table("Orders by two kinds of tests", ["kinds", "Kendall's τ"], rows)


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
    return table("What a method costs, and what it needs", head, rows, words=["records", "teachers", "starts from"])


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
    head = ["method", "settings", "dev", "best step"]
    return table("All trials: what was tried, and what the dev set said", head, rows, words=["settings"])


def tabulate_published(division: Division) -> Html:
    """Over the tests that both have: an average over others would be no comparison."""
    rows = []
    for standing in division.standings:
        for row in standing.published:
            shared = [name for name in division.kinds.get(row.kind, []) if name in row.figures]
            here = [found.mean for name in shared if (found := standing.spread_of(name)) is not None]
            if not shared or len(here) < len(shared):
                continue
            rows.append(
                [
                    standing.method,
                    figure(fmean(here)),
                    cell(figure(fmean(row.figures[name] for name in shared)), kind="published"),
                    cell(f"{row.model}, {row.backbone}", kind="words"),
                    cell(f"{row.source}; {row.protocol}", kind="words"),
                    cell(", ".join(shared), kind="words"),
                ]
            )
    head = ["method", "here", "published", "of", "source", "mean over"]
    return table("The published figure beside ours", head, rows, words=head[3:]) if rows else Html()


def _means(division: Division, kind: str) -> list[float]:
    return [found.mean for standing in division.standings if (found := standing.average_of(kind)) is not None]


def _milliseconds(standing: Standing) -> float | None:
    return None if standing.step_seconds is None else 1000 * standing.step_seconds


def show_spread(found: Spread | None) -> str:
    if found is None:
        return LACKING
    return figure(found.mean) if found.half is None else f"{figure(found.mean)} ± {figure(found.half)}"


def show_difference(found: Difference) -> str:
    if found.low is None or found.high is None:
        return signed(found.difference)
    return f"{signed(found.difference)} ({signed(found.low)} to {signed(found.high)})"
