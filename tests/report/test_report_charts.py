"""Charts: every mark lies inside, lines say their values, no label covers another."""

from __future__ import annotations

import json
import re
from html import unescape
from itertools import pairwise
from pathlib import Path

import pytest
from tiny_runs import Runs

from nearer.report.chart import CHARACTER, HEIGHT, WIDTH, Chart, described, linear, logarithmic, series_class
from nearer.report.curves import curve_names, curves_section, thinned
from nearer.report.subjects import read_subjects
from nearer.runs.folder import Line, MetricsLog


def test_points_lie_where_their_values_are() -> None:
    chart = Chart(linear("x", [0, 10]), linear("", [0, 1]))
    assert chart.x(10) == WIDTH - 12
    assert chart.x(0) == chart.left
    assert chart.y(1) == 8
    assert chart.y(0) == HEIGHT - 36
    assert chart.y(0.5) == pytest.approx((chart.y(0) + chart.y(1)) / 2)


def test_equal_factors_are_equal_lengths() -> None:
    chart = Chart(linear("x", [0, 1]), logarithmic("y", [0.01, 1]))
    assert chart.y(0.1) == pytest.approx((chart.y(0.01) + chart.y(1)) / 2, abs=0.1)


def test_lines_can_be_read_out() -> None:
    chart = Chart(linear("step", [0, 2]), linear("", [0, 1]))
    chart.line([(0.0, 0.123456789), (2.0, 1.0)], 3, name='a "b"')
    found = re.search(r'data-readings="([^"]*)"', chart.svg("x"))
    assert found is not None
    readings = json.loads(unescape(found.group(1)))
    assert readings["lines"] == [{"name": 'a "b"', "series": 3, "points": [[0.0, 0.12346], [2.0, 1.0]]}]
    assert readings["across"] == "step"


def test_labels_do_not_cover_each_other() -> None:
    chart = Chart(linear("x", [0, 1]), linear("y", [0, 1]))
    chart.labels({f"model {place}": (0.1, 0.5 + place / 1000) for place in range(5)})
    levels = sorted(float(level) for level in re.findall(r'class="label" x="[\d.]+" y="([\d.]+)"', chart.svg("x")))
    assert len(levels) == 5
    assert all(later - earlier >= 12 for earlier, later in pairwise(levels))


def test_ticks_do_not_touch() -> None:
    chart = Chart(linear("x", [0, 900_000]), linear("", [0, 1]))
    places = [chart.x(tick) for tick, _ in chart._apart()]
    widest = max(len(label) for _, label in chart._apart()) * CHARACTER
    assert all(later - earlier > widest for earlier, later in pairwise(places))


def test_colours_come_again_with_dashes() -> None:
    assert [series_class(place) for place in (0, 5, 6)] == ["series-1", "series-6", "series-1 again"]


def test_a_line_in_words() -> None:
    assert described("a", [(0.0, 1.0), (10.0, 3.0), (20.0, 2.0)]) == "a from 1 at 0 to 2 at 20, highest 3 at 10"
    assert described("a", [(0.0, 1.0), (10.0, 3.0)]) == "a from 1 at 0 to 3 at 10"


def test_long_lines_are_means_within_their_range() -> None:
    points = [(float(step), float(step % 2)) for step in range(1, 1001)]
    thin = thinned(points, most=200)
    assert len(thin) == 200
    assert thin[-1][0] == 1000
    assert {(low, high) for _, _, low, high in thin} == {(0.0, 1.0)}
    assert sum(mean for _, mean, _, _ in thin) / 200 == pytest.approx(0.5)
    assert thinned(points[:3]) == [(1.0, 1.0, 1.0, 1.0), (2.0, 0.0, 0.0, 0.0), (3.0, 1.0, 1.0, 1.0)]


def _log(*lines: dict[str, float]) -> MetricsLog:
    return MetricsLog(Path("metrics.jsonl"), tuple(Line(place, dict(values)) for place, values in enumerate(lines)), ())


def test_parts_and_tasks_are_drawn_where_there_are_several() -> None:
    step = {"loss": 1.0, "contrastive": 1.0, "gradient_norm": 1.0, "learning_rate": 1.0}
    dev = {"dev": 1.0, "uniformity": 1.0, "alignment": 1.0, "STS-B dev": 1.0}
    rest = ["uniformity", "alignment", "gradient_norm", "learning_rate"]
    assert curve_names([_log(step, dev)]) == ["loss", "dev", *rest]
    with_mlm = _log(step | {"mlm": 2.0}, dev | {"other": 1.0})
    assert curve_names([_log(step), with_mlm])[:6] == ["loss", "contrastive", "mlm", "dev", "STS-B dev", "other"]
    assert curve_names([_log()]) == []


def test_curves_of_runs_stand_in_one_chart_in_their_colours(runs: Runs) -> None:
    drawn = curves_section(read_subjects([runs.finished, runs.stopped]))
    loss = drawn[drawn.index("<strong>Loss") : drawn.index("</svg>")]
    assert 'class="line series-1"' in loss
    assert 'class="line series-2"' in loss
    dev = drawn[drawn.index("<strong>Dev score") :]
    assert dev[: dev.index("</svg>")].count('class="ring') == 2  # the steps that were kept


def test_the_way_through_training_begins_untrained_and_ends_with_the_last_step(runs: Runs) -> None:
    [subject] = read_subjects([runs.finished])
    assert subject.run is not None
    (_, uniformity), (_, alignment) = (subject.run.metrics.series(name) for name in ("uniformity", "alignment"))
    drawn = curves_section([subject])
    assert f"from ({uniformity[0]:.2f}, {alignment[0]:.2f}) to ({uniformity[-1]:.2f}, {alignment[-1]:.2f})" in drawn
