"""A data set of lists: order, interruption, limits, and a model that is of no use."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from scripted_engine import ScriptedEngine, counting, said

from nearer.construct.list_growth import EMPTY, REPEATED, ListSettings
from nearer.construct.lists import InProcess, ListsResult, construct_lists
from nearer.construct.requests import Generated, Request, Template
from nearer.construct.start_sentences import GivenStarts
from nearer.errors import InputError, SettingError
from nearer.storage.sealed import sealed_lines
from nearer.text import read_ranking_lists, read_sentences


@pytest.fixture
def source(tmp_path: Path) -> GivenStarts:
    path = tmp_path / "starts.txt"
    path.write_text("".join(f"s{number}\n" for number in range(50)))
    return GivenStarts(read_sentences(path))


Build = Callable[..., ListsResult]


@pytest.fixture
def build(source: GivenStarts) -> Build:
    def run(
        out: Path,
        rule: Callable[[Request], Generated] = counting,
        *,
        batch: int = 4,
        steps: int = 3,
        minimum_steps: int = 3,
        **others: Any,
    ) -> ListsResult:
        template = Template("say <{sentence}>", steps)
        settings = ListSettings("directional", template, steps, minimum_steps, guidance=1.5)
        return construct_lists(
            source, InProcess(lambda: ScriptedEngine(rule, batch=batch, seed=batch)), settings, out, **others
        )

    return run


def some_fail(request: Request) -> Generated:
    """Every fifth list is empty at its second step, every seventh loops."""
    if request.number % 5 == 0 and request.step == 2:
        return said(request, "")
    return said(request, "again") if request.number % 7 == 0 else counting(request)


def test_records_stand_in_the_order_of_their_starts(build: Build, tmp_path: Path) -> None:
    result = build(tmp_path / "d", some_fail)
    records = [json.loads(line) for line in result.data.read_text().splitlines()]
    kept = [number for number in range(50) if number % 5 and number % 7]
    assert [record["start"] for record in records] == kept
    assert records[0] == {"sentences": ["s1", "s1 | 1", "s1 | 2", "s1 | 3"], "start": 1, "cluster": None}
    assert result.rejected == {EMPTY: 10, REPEATED: 6}
    assert (result.lists, result.sentences, result.starts, result.cut) == (len(kept), 4 * len(kept), 50, 0)
    assert result.pace.sentences == 3 * len(kept) + 2 * 10 + 3 * 6
    header = json.loads((tmp_path / "d/about.json").read_text())
    assert header["about"]["engine"] == {"model": "scripted"}
    assert header["result"] == {
        "records": len(kept),
        "rejected": {EMPTY: 10, REPEATED: 6},
        "sentences": 4 * len(kept),
        "cut": 0,
        "starts": 50,
        "short_clusters": 0,
    }
    read = list(read_ranking_lists(result.data))
    assert read[0].sentences == ("s1", "s1 | 1", "s1 | 2", "s1 | 3")


def test_what_was_rejected_is_in_the_journal(build: Build, tmp_path: Path) -> None:
    build(tmp_path / "d", some_fail)
    lines = [line for _, line in sealed_lines(tmp_path / "d/journal.jsonl") if line]
    [line] = [line for line in lines if line["number"] == 5]
    assert line == {"number": 5, "rejected": EMPTY, "detail": {"sentences": ["s5", "s5 | 1"], "answer": ""}}


def test_cut_lists_are_counted(build: Build, tmp_path: Path) -> None:
    result = build(tmp_path / "d", some_fail, minimum_steps=1)
    assert (result.lists, result.cut, result.rejected.total()) == (50, 16, 0)


@pytest.mark.parametrize("stops", [[1], [17], [3, 9, 40]])
def test_interruptions_change_nothing(build: Build, tmp_path: Path, stops: list[int]) -> None:
    whole = build(tmp_path / "whole", some_fail).data.read_bytes()
    for stop in stops:
        asked = 0

        def interrupted(request: Request, stop: int = stop) -> Generated:
            nonlocal asked
            asked += 1
            if asked > stop:
                raise KeyboardInterrupt
            return some_fail(request)

        with pytest.raises(KeyboardInterrupt, match=r"stopped; \d+ finished lists are kept in .*/parts; the same comm"):
            build(tmp_path / "parts", interrupted, batch=7)
    resumed = build(tmp_path / "parts", some_fail, batch=2)
    assert resumed.data.read_bytes() == whole
    assert resumed.built <= 50
    header = json.loads((tmp_path / "parts/about.json").read_text())
    assert header["result"] == json.loads((tmp_path / "whole/about.json").read_text())["result"]


def test_finished_lists_are_not_asked_for_again(build: Build, tmp_path: Path) -> None:
    build(tmp_path / "d", limit=20)

    def only_later(request: Request) -> Generated:
        assert request.number >= 20
        return counting(request)

    assert build(tmp_path / "d", only_later).built == 30

    def never(request: Request) -> Generated:
        raise AssertionError(request)

    assert build(tmp_path / "d", never).built == 0


def test_a_limit_can_be_raised_later(build: Build, tmp_path: Path) -> None:
    first = build(tmp_path / "d", limit=7)
    assert [record.sentences[0] for record in read_ranking_lists(first.data)] == [f"s{n}" for n in range(7)]
    assert build(tmp_path / "d").data.read_bytes() == build(tmp_path / "whole").data.read_bytes()


def test_start_sentences_are_those_it_began_with(build: Build, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    build(tmp_path / "d", limit=7)
    monkeypatch.setattr(GivenStarts, "choose", lambda *_, **__: pytest.fail("chosen anew"))
    assert build(tmp_path / "d", limit=8).built == 1


def test_parquet_holds_the_same(build: Build, tmp_path: Path) -> None:
    plain, columns = build(tmp_path / "a", some_fail), build(tmp_path / "b", some_fail, format="parquet")
    assert list(read_ranking_lists(columns.data)) == list(read_ranking_lists(plain.data))


def test_a_model_that_says_nothing_ends_it_early_and_is_quoted(build: Build, tmp_path: Path) -> None:
    asked = 0

    def nothing(request: Request) -> Generated:
        nonlocal asked
        asked += 1
        return said(request, "\n \n")

    with pytest.raises(
        InputError, match=rf"all of the first 32 lists were rejected \({EMPTY} 32\).*'\\n \\n'"
    ) as caught:
        build(tmp_path / "d", nothing, batch=1)
    assert str(tmp_path / "d") in str(caught.value)
    assert "\n" not in str(caught.value)
    assert asked == 32
    assert len((tmp_path / "d/journal.jsonl").read_text().splitlines()) == 32
    assert not (tmp_path / "d/data.jsonl").exists()


def test_lists_that_fail_end_first_and_do_not_speak_for_the_others(build: Build, tmp_path: Path) -> None:
    def most_fail(request: Request) -> Generated:
        return counting(request) if request.number % 9 == 8 else said(request, "")

    steps = 60  # with all lists growing at once, those that fail have ended long before one is whole
    result = build(tmp_path / "d", most_fail, batch=50, steps=steps, minimum_steps=steps)
    assert result.lists == 5


def test_fewer_lists_that_all_fail_are_quoted_too(build: Build, tmp_path: Path) -> None:
    with pytest.raises(
        InputError, match=r"all of the first 3 lists were rejected .*the model's last answer was 'again'"
    ):
        build(tmp_path / "d", lambda request: said(request, "again"), limit=3)


def test_one_good_list_keeps_it_going(build: Build, tmp_path: Path) -> None:
    result = build(tmp_path / "d", lambda request: counting(request) if request.number == 9 else said(request, ""))
    assert (result.lists, result.rejected) == (1, {EMPTY: 49})


def test_another_construction_is_refused_and_left_alone(build: Build, tmp_path: Path) -> None:
    before = build(tmp_path / "d").data.read_bytes()
    with pytest.raises(SettingError, match="was begun with steps 3, 4 asked now"):
        build(tmp_path / "d", steps=4, minimum_steps=3)
    assert (tmp_path / "d/data.jsonl").read_bytes() == before
