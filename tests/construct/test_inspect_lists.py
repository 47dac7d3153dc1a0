"""Are lists in descending order? Measures against loops, what is marked, tables, the figure, and reading back."""

from __future__ import annotations

import itertools
import json
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.stats import kendalltau

from nearer.cli.output import show_table
from nearer.construct.construction import Construction
from nearer.construct.inspect_lists import (
    JudgedList,
    heat_maps,
    inspect_lists,
    lists_table,
    measures_table,
    save_heat_maps,
)
from nearer.construct.list_files import read_lists
from nearer.construct.lists import KIND
from nearer.errors import InputError


class AngleJudge:
    """A sentence is an angle in degrees, in a plane: its cosines can be had by hand."""

    def encode(self, sentences: list[str], *, progress: bool = False) -> NDArray[np.float32]:
        angles = np.radians([float(sentence) for sentence in sentences])
        return 3 * np.stack([np.cos(angles), np.sin(angles)], axis=1).astype(np.float32)


def cosine(first: str, second: str) -> float:
    return math.cos(math.radians(float(first) - float(second)))


LISTS = [["0", "10", "20", "30", "40"], ["5", "50", "20", "30", "90"], ["0", "10"], ["0", "30", "30", "60"]]


def test_measures_are_those_of_loops() -> None:
    found = inspect_lists("lists", LISTS, AngleJudge(), size=3)
    similarities = [[cosine(some[0], other) for other in some[1:]] for some in LISTS]
    assert [judged.cosines for judged in found.lists] == [pytest.approx(own, abs=1e-5) for own in similarities]
    pairs, falling = 0, 0
    for own in LISTS:
        for earlier, later in itertools.pairwise(own[1:]):
            pairs += 1
            falling += earlier != later and cosine(own[0], later) < cosine(own[0], earlier)
    assert found.descending_pairs == pytest.approx(falling / pairs)
    assert found.descending_lists == 2 / 4  # the first, and the one with nothing to compare
    taus = [
        kendalltau([-n for n in range(len(own))], np.round(own, 6)).statistic for own in similarities if len(own) > 1
    ]
    assert found.order == pytest.approx(np.mean(taus))
    assert taus[0] == 1
    assert found.undefined == 1
    assert found.counts == (4, 3, 3, 2)
    assert found.by_position[3] == pytest.approx((cosine("0", "40") + cosine("5", "90")) / 2, abs=1e-5)
    assert found.sentences == 16


def test_the_average_matrix_is_over_lists_that_are_long_enough() -> None:
    matrix = inspect_lists("lists", LISTS, AngleJudge(), size=3).matrix
    expected = np.zeros((3, 3))
    for i in range(3):
        for j in range(3):
            both = [cosine(some[i], some[j]) for some in LISTS if len(some) > max(i, j)]
            expected[i, j] = sum(both) / len(both)
    np.testing.assert_allclose(matrix, expected, atol=1e-5)


@given(st.lists(st.floats(-1, 1), min_size=1, max_size=12))
def test_without_what_is_marked_a_list_is_in_descending_order(cosines: list[float]) -> None:
    judged = JudgedList(("x",) * (len(cosines) + 1), tuple(cosines))
    kept = [value for value, out in zip(cosines, judged.out_of_order, strict=True) if not out]
    assert kept == sorted(cosines and kept, reverse=True)
    assert kept[0] == cosines[0]
    for place, out in enumerate(judged.out_of_order):
        assert out == any(cosines[place] > earlier for earlier in cosines[:place])


def test_equal_sentences_tie() -> None:
    found = inspect_lists("lists", [["0", "30", "30"]], AngleJudge())
    assert found.lists[0].order is None
    assert not found.lists[0].descending
    assert found.lists[0].out_of_order == (False, False)


def test_lists_that_begin_alike_stand_side_by_side(capsys: pytest.CaptureFixture[str]) -> None:
    first = inspect_lists("one", [["1", "9"], ["0", "10", "20", "15"]], AngleJudge())
    second = inspect_lists("two", [["0", "77", "88"]], AngleJudge())
    show_table(lists_table([first, second], 5))
    shown = capsys.readouterr().out
    [row] = [line for line in shown.splitlines() if "0.9397" in line]  # cos 20°
    assert "88" in row
    assert "77" in shown
    assert "0.9903" not in shown  # cos 8°: only what both begin with
    [marked] = [line for line in shown.splitlines() if "0.9659" in line]
    assert "↑ 0.9659" in marked
    show_table(lists_table([first], 1))
    assert "0.9903" in capsys.readouterr().out


def test_sets_of_lists_with_nothing_in_common_are_shown_one_by_one(capsys: pytest.CaptureFixture[str]) -> None:
    found = [inspect_lists(f"set {first}", [[first, "40"], ["3", "4"]][:1], AngleJudge()) for first in ("1", "2")]
    show_table(lists_table(found, 1))
    shown = capsys.readouterr().out
    assert shown.count("cosine") == 2
    assert "set 1" in shown
    assert "set 2" in shown


def test_measures_of_several_sets_stand_in_one_table(capsys: pytest.CaptureFixture[str]) -> None:
    show_table(measures_table([inspect_lists(name, LISTS[: n + 1], AngleJudge()) for n, name in enumerate(["a", "b"])]))
    rows = [line.split("│")[1:-1] for line in capsys.readouterr().out.splitlines() if line.startswith("│")]
    table = {cells[0].strip(): [cell.strip() for cell in cells[1:]] for cells in rows}
    assert table["lists"] == ["1", "2"]
    assert table["lists in descending order"] == ["100.0 %", "50.0 %"]
    assert table["Kendall's tau of similarity and order"][0] == "1.000"
    assert table["mean similarity of sentence 4 to the first"][0] == f"{math.cos(math.radians(40)):.3f}"


def test_the_heat_map_has_a_panel_for_each_set_and_one_scale(tmp_path: Path) -> None:
    inspections = [inspect_lists(name, LISTS[n:], AngleJudge()) for n, name in enumerate(("a", "b", "c"))]
    figure = heat_maps(inspections)
    images = [axes.images[0] for axes in figure.axes if axes.images]
    assert len(images) == 3
    assert len({image.get_clim() for image in images}) == 1
    np.testing.assert_allclose(images[0].get_array(), inspections[0].matrix)
    for name in ("map.svg", "map.png"):
        assert save_heat_maps(inspections, tmp_path / name).stat().st_size > 1000


RECORDS = [
    {"sentences": ["0", "10"], "start": 3, "cluster": 1},
    {"sentences": ["5", "7", "9"], "start": 4, "cluster": 0},
]


def construction(folder: Path, kind: str = KIND, **options: str) -> Construction:
    building = Construction(folder, {"kind": kind, "seed": 1}, **options)  # type: ignore[arg-type]
    for number, record in enumerate(RECORDS):
        building.add(1 - number, record)
    building.reject(2, "empty sentence")
    return building


@pytest.mark.parametrize("format", ["jsonl", "parquet"])
def test_a_folder_or_its_file_gives_the_lists_and_the_header(tmp_path: Path, format: str) -> None:
    data = construction(tmp_path / "d", format=format).finish()
    for place in (tmp_path / "d", data):
        found = read_lists(place)
        assert found.lists == [("5", "7", "9"), ("0", "10")]
        assert found.rejected == {"empty sentence": 1}
        assert found.about["seed"] == 1
        assert not found.unfinished


def test_an_unfinished_folder_gives_what_it_has(tmp_path: Path) -> None:
    construction(tmp_path / "d").close()
    with open(tmp_path / "d/journal.jsonl", "a") as file:
        file.write('{"number": 3, "rec')
    found = read_lists(tmp_path / "d")
    assert found.unfinished
    assert found.lists == [("5", "7", "9"), ("0", "10")]
    assert found.rejected == {"empty sentence": 1}


def test_a_plain_file_of_lists(tmp_path: Path) -> None:
    path = tmp_path / "own.jsonl"
    path.write_text('["a", "b"]\n{"sentences": ["c", "d"]}\n')
    assert read_lists(path).lists == [("a", "b"), ("c", "d")]


@pytest.mark.parametrize("format", ["jsonl", "parquet"])
def test_other_constructions_are_refused_by_name(tmp_path: Path, format: str) -> None:
    data = construction(tmp_path / "d", kind="debiased samples", format=format).finish()
    for place in (tmp_path / "d", data):
        with pytest.raises(InputError, match="holds debiased samples; only ranking lists can be inspected"):
            read_lists(place)


def test_a_parquet_file_carries_its_header_along(tmp_path: Path) -> None:
    data = construction(tmp_path / "d", kind="debiased samples", format="parquet").finish()
    with pytest.raises(InputError, match=r"moved.parquet: holds debiased samples"):
        read_lists(data.rename(tmp_path / "moved.parquet"))


def test_a_file_of_something_else_says_what_was_looked_for(tmp_path: Path) -> None:
    path = tmp_path / "debiased.jsonl"
    path.write_text(json.dumps({"anchor": "a", "positives": ["b"], "negatives": ["c"]}) + "\n")
    with pytest.raises(
        InputError, match=r"debiased.jsonl: holds no ranking lists \(`nearer construct lists` makes them"
    ):
        read_lists(path)


def test_folders_that_hold_nothing_yet_or_nothing_of_ours(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"is no folder of `nearer construct`: it has no about.json"):
        read_lists(tmp_path)
    Construction(tmp_path / "d", {"kind": KIND})
    with pytest.raises(InputError, match="no list is finished yet"):
        read_lists(tmp_path / "d")
    (tmp_path / "d/about.json").write_text("{")
    with pytest.raises(InputError, match=r"about.json: is not a header"):
        read_lists(tmp_path / "d")
    construction(tmp_path / "e").close()
    with pytest.raises(InputError, match=r"journal.jsonl: is the journal of a construction; name its folder"):
        read_lists(tmp_path / "e/journal.jsonl")
