"""What is asked of the engine, when lists end, and why."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from scripted_engine import ScriptedEngine, counting, said

from nearer.construct import list_growth
from nearer.construct.list_growth import GrownList, ListSettings, grow_lists
from nearer.construct.requests import Generated, Request, Template
from nearer.construct.start_sentences import Start
from nearer.errors import SettingError

STARTS = [Start(number, f"s{number}", number * 10, None) for number in range(9)]


def settings(method: str = "directional", **changed: Any) -> ListSettings:
    steps = changed.setdefault("steps", 5)
    changed.setdefault("minimum_steps", steps)
    changed.setdefault("guidance", 1.5 if method == "directional" else 0.0)
    return ListSettings(method=method, template=Template("say <{sentence}>", steps), **changed)


def grown(
    rule: Callable[[Request], Generated], made: ListSettings, starts: list[Start] = STARTS
) -> dict[int, GrownList]:
    found = list(grow_lists(ScriptedEngine(rule), starts, made))
    assert sorted(some.number for some in found) == [start.number for start in starts]
    return {some.number: some for some in found}


def test_each_sentence_is_asked_for_from_the_last_and_away_from_the_one_before() -> None:
    engine = ScriptedEngine(counting)
    [found] = grow_lists(engine, STARTS[3:4], settings(steps=3))
    assert found.sentences == ["s3", "s3 | 1", "s3 | 2", "s3 | 3"]
    assert engine.asked == [
        Request(3, 1, "say <s3>", None, 0.0, one_line=False),
        Request(3, 2, "say <s3 | 1>", "say <s3>", 1.5, one_line=False),
        Request(3, 3, "say <s3 | 2>", "say <s3 | 1>", 1.5, one_line=False),
    ]
    assert found.rejected is None
    assert found.tokens == 12  # all three answers


@pytest.mark.parametrize("made", [settings("step-by-step"), settings(guidance=0.0)])
def test_without_a_direction_nothing_is_asked_of_the_sentence_before(made: ListSettings) -> None:
    engine = ScriptedEngine(counting)
    list(grow_lists(engine, STARTS, made))
    assert {(request.away_from, request.guidance) for request in engine.asked} == {(None, 0.0)}
    assert len(engine.asked) == 5 * len(STARTS)


@pytest.mark.parametrize("batch", [1, 3, 100])
def test_lists_are_the_same_however_many_grow_at_once(batch: int) -> None:
    alone = grown(counting, settings())
    engine = ScriptedEngine(counting, batch=batch, seed=batch)
    assert {some.number: some for some in grow_lists(engine, STARTS, settings())} == alone
    assert len(alone[0].sentences) == 6


def test_a_list_is_ended_before_others_begin() -> None:
    """Else an interruption would find all lists half done and none finished."""
    engine = ScriptedEngine(counting, batch=2)
    for ended, _ in enumerate(grow_lists(engine, STARTS, settings()), 1):
        begun = {request.number for request in engine.asked}
        assert len(begun) - ended < 2


@pytest.mark.parametrize(
    ("text", "ended", "reason"),
    [
        ("", "model", list_growth.EMPTY),
        ("Result: ''", "model", list_growth.EMPTY),
        ("one\ntwo", "model", list_growth.LINE_BREAK),
        ("on and on and", "limit", list_growth.CUT_OFF),
        ("", "no room", list_growth.NO_ROOM),
    ],
)
def test_a_broken_rule_ends_the_list_at_once(text: str, ended: str, reason: str) -> None:
    def rule(request: Request) -> Generated:
        return said(request, text, ended) if (request.number, request.step) == (4, 3) else counting(request)

    engine = ScriptedEngine(rule)
    found = {some.number: some for some in grow_lists(engine, STARTS, settings())}
    assert found[4].rejected == reason
    assert found[4].sentences == ["s4", "s4 | 1", "s4 | 2"]
    assert found[4].answer == text
    assert max(request.step for request in engine.asked if request.number == 4) == 3
    assert [some.rejected for number, some in found.items() if number != 4] == [None] * 8


def test_the_first_line_can_be_asked_for_but_not_an_announcement() -> None:
    engine = ScriptedEngine(
        lambda request: said(request, "Sure, here it is:") if request.step == 2 else counting(request)
    )
    [found] = grow_lists(engine, STARTS[:1], settings(first_line=True))
    assert all(request.one_line for request in engine.asked)
    assert (found.rejected, found.sentences) == (list_growth.ANNOUNCED, ["s0", "s0 | 1"])


def test_a_model_that_loops_is_noticed_at_the_third_time() -> None:
    found = grown(lambda request: said(request, "again"), settings())
    assert {some.rejected for some in found.values()} == {list_growth.REPEATED}
    assert found[0].sentences == ["s0", "again", "again"]


def test_a_model_that_repeats_the_start_is_noticed_too() -> None:
    found = grown(lambda request: said(request, request.prompt[5:-1]), settings())
    assert found[2].sentences == ["s2", "s2"]


def test_a_list_may_be_kept_up_to_the_rule_it_broke() -> None:
    def rule(request: Request) -> Generated:
        return said(request, "") if request.step == request.number + 1 else counting(request)

    found = grown(rule, settings(minimum_steps=3))  # list n breaks a rule at step n + 1
    assert [found[number].rejected for number in range(5)] == [list_growth.EMPTY] * 3 + [None] * 2
    assert [len(found[number].sentences) for number in range(6)] == [1, 2, 3, 4, 5, 6]


def test_the_released_rule_drops_lists_whose_end_occurs_three_times() -> None:
    def rule(request: Request) -> Generated:
        return said(request, "the end" if request.step >= 3 else f"step {request.step}")

    assert grown(rule, settings())[0].rejected == list_growth.REPEATED
    released = grown(rule, settings(rules="released"))[0]
    assert (released.rejected, len(released.sentences)) == (list_growth.REPEATED_END, 5)
    cut = grown(rule, settings(rules="released", minimum_steps=4))[0]
    assert (cut.rejected, cut.sentences[-3:]) == (None, ["step 2", "the end", "the end"])


def test_the_released_rule_keeps_lists_that_repeat_in_the_middle() -> None:
    def rule(request: Request) -> Generated:
        return said(request, "again" if request.step <= 3 else f"step {request.step}")

    assert grown(rule, settings())[0].rejected == list_growth.REPEATED
    kept = grown(rule, settings(rules="released"))[0]
    assert (kept.rejected, kept.sentences[1:]) == (None, ["again"] * 3 + ["step 4", "step 5"])


def test_a_start_sentence_with_a_line_break_is_not_asked_about() -> None:
    engine = ScriptedEngine(counting)
    [found] = grow_lists(engine, [Start(0, "two\nlines", 0, None)], settings())
    assert (found.rejected, engine.asked) == (list_growth.LINE_BREAK, [])


NUMBERED = "\n".join(f"{n}. sentence {n}" for n in range(1, 8))


@pytest.mark.parametrize(
    ("text", "ended", "reason", "kept"),
    [
        (NUMBERED, "model", None, 6),  # more than asked for: the first ones
        (NUMBERED, "limit", None, 6),
        ("1. a\n2. b\n3. c", "model", list_growth.INCOMPLETE, 4),
        ("1. a\n2. b\n3. c", "limit", list_growth.CUT_OFF, 3),
        ("\n".join(f"{n}. s{n}" for n in range(1, 6)), "limit", list_growth.CUT_OFF, 5),
        ("1. a\n2.\n3. c\n4. d\n5. e", "model", list_growth.EMPTY, 2),
        ("1. a\nb\n2. c\n3. d\n4. e\n5. f", "model", list_growth.LINE_BREAK, 1),
        ("1. a\n2. a\n3. a\n4. d\n5. e", "model", list_growth.REPEATED, 3),
        ("I cannot do that.", "model", list_growth.EMPTY, 1),
        ("", "no room", list_growth.NO_ROOM, 1),
    ],
)
def test_a_whole_list_in_one_answer(text: str, ended: str, reason: str | None, kept: int) -> None:
    engine = ScriptedEngine(lambda request: said(request, text, ended))
    [found] = grow_lists(engine, STARTS[:1], settings("single-step"))
    assert engine.asked == [Request(0, 1, "say <s0>", one_line=False)]
    assert (found.rejected, len(found.sentences)) == (reason, kept)


@pytest.mark.parametrize(
    ("changed", "named"),
    [
        ({"steps": 0}, "steps: 0"),
        ({"minimum_steps": 6}, "minimum_steps: 6"),
        ({"guidance": float("nan")}, "guidance"),
        ({"guidance": -1.0}, "guidance"),
        ({"method": "step-by-step", "guidance": 1.0}, "step-by-step method has none"),
        ({"rules": "none"}, "rules"),
        ({"method": "single-step", "first_line": True}, "first_line"),
    ],
)
def test_settings_that_cannot_be(changed: dict[str, Any], named: str) -> None:
    with pytest.raises(SettingError, match=named):
        settings(**changed)
