"""Trials of tuning: points drawn from stated choices, as many for each method.

The first trial is the recipe as it stands, which is the tuning that its authors did. The others are drawn. What is
drawn follows from the seed and the method's name, so that another method in the league changes nothing, and more trials
begin with those that were there.
"""

from __future__ import annotations

import hashlib
import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from nearer.errors import SettingError
from nearer.leagues.plan import Choices, Range

MOST_LISTED = 100_000  # points that are listed and shuffled; of more, points are drawn until they differ
MOST_DRAWS = 1000  # of points that were there already
DIGITS = 4


def draw_points(choices: Mapping[str, Choices], name: str, seed: int) -> Iterator[dict[str, Any]]:
    """Points in a random order, each once, without end where a range is among the choices."""
    digest = hashlib.blake2b(name.encode(), digest_size=8).digest()
    random = np.random.default_rng([seed, int.from_bytes(digest, "big")])
    lists = {key: values for key, values in choices.items() if isinstance(values, list)}
    if not choices:
        return
    if len(lists) == len(choices) and math.prod(map(len, lists.values())) <= MOST_LISTED:
        points = list(itertools.product(*lists.values()))
        for number in random.permutation(len(points)):
            yield dict(zip(choices, points[number], strict=True))
        return
    drawn: list[dict[str, Any]] = []
    in_vain = 0
    while in_vain < MOST_DRAWS:  # a range of a few whole numbers has an end
        point = {key: _draw(values, random) for key, values in choices.items()}
        if point in drawn:
            in_vain += 1
            continue
        drawn.append(point)
        yield point


def choose_trials(
    own: Mapping[str, Any], points: Iterator[Mapping[str, Any]], count: int, where: str
) -> list[dict[str, Any]]:
    """`count` different points, the recipe's own first. where: the setting that states the choices."""
    trials = [dict(own)]
    for point in points:
        if len(trials) == count:
            break
        if point not in trials:
            trials.append(dict(point))
    if len(trials) < count:
        raise SettingError(
            f"{where}: gives {len(trials)} different points with the recipe's own, and each method has {count} trials; "
            "state more values, or lower trials."
        )
    return trials


def listed_values(choices: Mapping[str, Choices]) -> Iterator[tuple[str, Any]]:
    """All values of lists, and the ends of ranges: if these can be used, all can."""
    for key, values in choices.items():
        found: Sequence[Any] = values if isinstance(values, list) else _ends(values)
        for value in found:
            yield key, value


def _draw(values: Choices, random: np.random.Generator) -> Any:
    if isinstance(values, list):
        return values[int(random.integers(len(values)))]
    share = float(random.random())
    if values.whole:
        low, high = math.ceil(values.low), math.floor(values.high)
        # half a number more at both ends, so that these come as often as the others
        return min(high, max(low, round(_between(low - 0.5, high + 0.5, share, values.scale))))
    return float(f"{_between(values.low, values.high, share, values.scale):.{DIGITS}g}")


def _between(low: float, high: float, share: float, scale: str) -> float:
    if scale == "log":
        return math.exp(math.log(low) + share * (math.log(high) - math.log(low)))
    return low + share * (high - low)


def _ends(values: Range) -> tuple[float, float]:
    return (math.ceil(values.low), math.floor(values.high)) if values.whole else (values.low, values.high)
