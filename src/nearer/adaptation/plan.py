"""How much can be done in the time that there is: measured speeds and a budget become numbers of queries and steps."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from nearer.adaptation.made_tests import MOST_ASKED, USUAL_TESTS
from nearer.adaptation.speeds import Speeds
from nearer.adaptation.tournament import FASTER, PAIRS
from nearer.errors import SettingError

COMPILING = 30.0  # seconds before the first step on a GPU
RESUMING = 10.0  # the same of a run that goes on: what was compiled is kept
# shares of the budget
TESTS, MATERIAL, TRAINING = 0.35, 0.25, 0.40
MOST_TESTS = 0.55  # of tests that would otherwise have fewer than ENOUGH_QUERIES
LEAST_TRAINING = 0.2  # when tests took longer than planned
WRITING = 0.2  # by a language model; the others then share the rest
MOST_RERANKED = 50  # passages that a judge names for a query
SMALLER = 0.75  # what is left of something that is too large
SPREAD = 2.2  # candidates of a query, in those that one judge names: others name other ones
# To learn from, and steps of a student. On FiQA 1,000 steps are enough for 8,000 queries, and 12,000 with 2,000 steps
# gained a point (docs/results.md).
MOST_QUERIES, MOST_STEPS = 16_000, 2000
RAW_MOST_STEPS = 8000  # of a base that cannot search yet: it has further to go (docs/adapt.md)
# ways to train: one student (or two that share its steps), or two up to a rung and the better one to the end
ALONE, HALVING = "alone", "halving"
RUNG = 4  # one in so many steps is taken before two students are compared
TWO_FROM = 1000  # steps that the better student has, or lists are not tried at a second learning rate
KEPT_BY_BETTER = 2 / 3  # of the steps that one student alone would have: what halving must leave to the better one
NEW_AFTERWARDS = 1.3  # times as many pairs are reranked in all as before training: students find other passages
# Many texts take this share of what a few take each, by which speeds are measured. A step takes what a few take.
OF_MANY = 0.7
FASTEST, SLOWEST = 0.1, 10.0  # times what tests were expected to take; an interrupted run would give any number
# What a query costs to encode, in passages: it is short. On two x86-64 cores all-mpnet-base-v2 encodes 37 of
# Cranfield's queries a second and 10 of its passages.
OF_A_QUERY = 0.25
FEWEST_LABELLED = 100
FEWEST_WRITTEN = 32
FEWEST_QUERIES, FEWEST_PASSAGES, FEWEST_TO_LEARN, FEWEST_STEPS = 40, 500, 200, 20
# Of a test: with fewer, chance decides among set-ups that lie a few points apart (docs/adapt.md).
ENOUGH_QUERIES = 100
FEWEST_RERANKED = 20
UNITS = {"s": 1, "sec": 1, "min": 60, "m": 60, "h": 3600}


@dataclass(frozen=True)
class Expected:
    """What `settle` needs to plan the steps anew.

    Seconds: budget: there are; before, after: that tests take before and after training; material: to make it; step:
    of training; start_up, resuming: before the first step of a run that begins or goes on; student: to put one more
    student to the tests. second: who may train beside lists, or None.
    """

    budget: float
    before: float
    after: float
    material: float
    step: float
    start_up: float
    resuming: float
    student: float
    second: str | None


@dataclass(frozen=True)
class Plan:
    """What is done.

    steps: of a student, or of all together where they share them; longest: tokens of a passage in training; seconds:
    what it is expected to take, by stage; labelled: queries with labels that are asked; written: queries that a
    language model writes to learn from; written_tests: and as a test; halving: two students train, and the one that
    is better after its first rung takes all steps; expected: what `settle` needs, None when the steps are settled;
    most_steps: the most that a student may take, whatever the budget.
    """

    passages: int
    queries: int
    best: int
    reranks: bool
    to_learn: int
    steps: int
    batch: int
    per_query: int
    longest: int | None
    seconds: dict[str, float]
    labelled: int = 0
    written: int = 0
    written_tests: int = 0
    halving: bool = False
    expected: Expected | None = None
    most_steps: int = MOST_STEPS

    @property
    def trains(self) -> bool:
        return self.steps >= FEWEST_STEPS

    @property
    def allows_training(self) -> bool:
        """Whether a student may take enough steps, if there is time."""
        return self.most_steps >= FEWEST_STEPS

    @property
    def total_seconds(self) -> float:
        """Seconds."""
        return sum(self.seconds.values())

    @property
    def told_training(self) -> str:
        if not self.trains:
            return f"no training ({'too little time' if self.allows_training else 'as asked'})"
        steps = f"{self.steps:,} steps"
        if self.halving:
            steps = f"two students, {first_rung(self.steps):,} steps each, the better one goes on to {steps},"
        return f"{steps} on lists of {self.to_learn:,} queries"

    def __str__(self) -> str:
        taken = ", ".join(f"{stage} {told_seconds(seconds)}" for stage, seconds in self.seconds.items())
        written = f"{self.written:,} queries written by the language model, " if self.written else ""
        labelled = f"{self.labelled:,} labelled queries, " if self.labelled else ""
        tests = f"{self.passages:,} passages, tests of up to {self.queries} queries"
        return f"plan: {tests}, {labelled}{written}{self.told_training}; about {taken}"


def parse_budget(text: str) -> float:
    """Seconds of `20min`, `90s`, `2h`."""
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([a-z]*)\s*", text.lower())
    unit = UNITS.get(match[2] or "min") if match else None
    if match is None or unit is None or not 10 <= float(match[1]) * unit <= 30 * 24 * 3600:
        raise SettingError(f"budget: {text!r} is no time between 10s and 720h, such as 20min.", argument="budget")
    return float(match[1]) * unit


def told_seconds(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 100 else f"{seconds / 60:.0f} min"


def make_plan(
    budget: float,
    passages: int,
    speeds: Speeds,
    *,
    on_gpu: bool,
    labelled: int = 0,
    always: int = 0,
    llm_test: bool = False,
    most_queries: int = MOST_QUERIES,
    most_steps: int = MOST_STEPS,
) -> Plan:
    """The most that fits. Where not all does, tests and collection get smaller in step, then the training.

    labelled: queries with labels; always: passages that are there in any case, since they answer them; llm_test: some
    of the queries that a language model writes are a test; most_queries, most_steps: the most for students.
    """
    whole, fewest = budget, max(FEWEST_PASSAGES, always)
    few, speeds = speeds, _of_many(speeds)
    budget = whole if speeds.query is None else (1 - WRITING) * whole
    batch, per_query = (96, 4) if on_gpu else (16, 4)
    longest, reranks = None if on_gpu else 128, speeds.pair is not None
    plan = Plan(
        passages,
        MOST_ASKED,
        MOST_RERANKED,
        reranks,
        most_queries,
        most_steps,
        batch,
        per_query,
        longest,
        {},
        labelled=labelled,
        most_steps=most_steps,
    )
    shares = (TESTS, MOST_TESTS) if plan.allows_training else (1.0, 1.0)
    plan = _fit_tests(plan, speeds, shares[0] * budget, shares[1] * budget, fewest)
    fewest_to_learn = min(FEWEST_TO_LEARN, most_queries)
    plan = replace(plan, to_learn=max(fewest_to_learn, min(plan.to_learn, 3 * plan.passages)))
    while _material(plan, speeds) > MATERIAL * budget and plan.to_learn > fewest_to_learn:
        plan = replace(plan, to_learn=max(fewest_to_learn, plan.to_learn // 2))
    # what tests and material leave is for training too
    left = max(TRAINING * budget, budget - _tests(plan, speeds) - _material(plan, speeds))
    expected = Expected(
        budget=budget,
        before=_before_training(plan, speeds),
        after=_tests(plan, speeds) - _before_training(plan, speeds),
        material=_material(plan, speeds),
        step=_step(plan, few),
        start_up=COMPILING if on_gpu else 0.0,
        resuming=RESUMING if on_gpu else 0.0,
        student=_texts(plan) * speeds.passage,
        second=FASTER if speeds.taught > 0 or plan.reranks else PAIRS,
    )
    plan = _with_steps(plan, expected, left)
    if speeds.query is not None:
        plan = _with_writing(plan, int(WRITING * whole / speeds.query), llm_test=llm_test)
    seconds = {
        "tests": _tests(plan, speeds),
        "material": _material(plan, speeds) if plan.trains else 0.0,
        "training": plan.seconds["training"],
    }
    if speeds.query is not None:
        seconds["writing"] = (plan.written + plan.written_tests) * speeds.query
    return replace(plan, seconds=seconds, expected=expected)


def _of_many(speeds: Speeds) -> Speeds:
    """What was measured with a few texts, as it will be with many."""
    pair = None if speeds.pair is None else OF_MANY * speeds.pair
    return replace(speeds, passage=OF_MANY * speeds.passage, taught=OF_MANY * speeds.taught, pair=pair)


def _fit_tests(plan: Plan, speeds: Speeds, seconds: float, most: float, fewest: int) -> Plan:
    """With tests that take so many seconds, as far as they can get smaller.

    most: seconds that tests may take instead where they would have fewer than ENOUGH_QUERIES; fewest: passages.

    Queries and passages share the time: with few queries chance decides, with few passages everybody finds the answer.
    Reranking is left out where even that of the fewest queries would take half of the time.
    """
    least = replace(plan, queries=FEWEST_QUERIES, best=FEWEST_RERANKED, labelled=min(plan.labelled, FEWEST_LABELLED))
    if plan.reranks and _reranking(least, speeds) > seconds / 2:
        return _fit_tests(replace(plan, reranks=False), speeds, seconds, most, fewest)
    fitted = plan
    while (taken := _tests(fitted, speeds)) > (seconds if fitted.queries > ENOUGH_QUERIES else most):
        of_passages = fitted.passages * _of_a_text(plan, speeds)
        if fitted.queries > FEWEST_QUERIES and (2 * of_passages <= taken or fitted.passages <= fewest):
            fitted = replace(
                fitted,
                queries=_fewer(fitted.queries),
                best=max(FEWEST_RERANKED, int(0.9 * fitted.best)),
                labelled=max(least.labelled, int(SMALLER * fitted.labelled)),
            )
        elif fitted.passages > fewest:
            fitted = replace(fitted, passages=max(fewest, int(SMALLER * fitted.passages)))
        elif fitted.reranks:
            return _fit_tests(replace(plan, reranks=False), speeds, seconds, most, fewest)
        else:
            break
    return fitted


def _fewer(queries: int) -> int:
    """The next smaller number of queries of a test, on a way down that passes ENOUGH_QUERIES."""
    least = ENOUGH_QUERIES if queries > ENOUGH_QUERIES else FEWEST_QUERIES
    return max(least, int(SMALLER * queries))


def settle(plan: Plan, taken: float, may_train: Sequence[str] | None = None) -> Plan:
    """The plan with as many steps as the time that is left allows, now that the tests are made.

    taken: seconds that this took. It says how fast the machine is; a few texts at the start say it badly where others
    work beside. may_train: students that can learn something, the first of them first; None: as was expected.
    """
    expected = plan.expected
    if expected is None:
        return plan
    share = min(SLOWEST, max(FASTEST, taken / max(expected.before, 1e-9)))
    left = expected.budget - taken - share * (expected.after + expected.material)
    left = max(LEAST_TRAINING * expected.budget, left)  # a budget is passed rather than spent on tests alone
    known = replace(expected, step=share * expected.step, student=share * expected.student)
    if may_train is not None:
        known = replace(known, second=may_train[1] if len(may_train) > 1 else None)
    return replace(_with_steps(plan, known, left), expected=None)


def _with_steps(plan: Plan, expected: Expected, left: float) -> Plan:
    """With what fits into the seconds that are left."""
    start_up, step, student = expected.start_up, expected.step, expected.student
    # by the way to train: how often all steps are taken, and the seconds beside them
    ways = {
        ALONE: (1.0, start_up),
        HALVING: (1 + 1 / RUNG, 2 * start_up + expected.resuming + 2 * student),
    }
    fitting = {
        way: int(min(plan.most_steps, max(0.0, left - beside) / (runs * step))) for way, (runs, beside) in ways.items()
    }
    way = _choose_way(fitting, expected.second, plan.most_steps)
    (runs, beside), steps = ways[way], fitting[way]
    steps = steps if steps >= FEWEST_STEPS else 0
    return replace(
        plan,
        steps=steps,
        halving=way == HALVING,
        seconds={**plan.seconds, "training": runs * steps * step + beside if steps else 0.0},
    )


def _choose_way(steps: Mapping[str, int], second: str | None, most_steps: int) -> str:
    """steps: that fit, by the way to train. second: who may train beside the first."""
    if second is None:
        return ALONE
    least: float = steps[ALONE] // 2 + 1  # without a teacher both train in any case, and would share the time
    if second == FASTER:  # it may take little from the first
        least = max(min(most_steps, TWO_FROM), KEPT_BY_BETTER * steps[ALONE])
    return HALVING if steps[HALVING] >= least and first_rung(steps[HALVING]) >= FEWEST_STEPS else ALONE


def first_rung(steps: int) -> int:
    """After how many of its steps a student is compared with others."""
    return steps // RUNG


def _with_writing(plan: Plan, affordable: int, *, llm_test: bool) -> Plan:
    """Half of what is learnt from at most: mixed with copied queries, written ones teach more than alone."""
    tests = min(plan.queries, affordable // 3) if llm_test else 0
    tests = tests if tests >= FEWEST_QUERIES else 0
    written = min(plan.to_learn // 2, affordable - tests) if plan.trains else 0
    return replace(plan, written_tests=tests, written=written if written >= FEWEST_WRITTEN else 0)


def _tests(plan: Plan, speeds: Speeds) -> float:
    """Of the base, the teachers, and a student if there may be one."""
    return _texts(plan) * _of_a_text(plan, speeds) + _reranking(plan, speeds)


def _of_a_text(plan: Plan, speeds: Speeds) -> float:
    """Seconds of a text by all encoders."""
    return (2 if plan.allows_training else 1) * speeds.passage + speeds.taught


def _texts(plan: Plan) -> float:
    """What is encoded, counted in passages: passages, queries, and their answers without them."""
    return plan.passages + (1 + OF_A_QUERY) * USUAL_TESTS * plan.queries + OF_A_QUERY * plan.labelled


def _before_training(plan: Plan, speeds: Speeds) -> float:
    return _texts(plan) * (speeds.passage + speeds.taught) + _reranking(plan, speeds) / NEW_AFTERWARDS


def _reranking(plan: Plan, speeds: Speeds) -> float:
    """Of all tests; after training, what is new among the candidates."""
    if not plan.reranks or speeds.pair is None:
        return 0.0
    queries = USUAL_TESTS * plan.queries + plan.labelled
    return NEW_AFTERWARDS * queries * SPREAD * plan.best * speeds.pair


def _material(plan: Plan, speeds: Speeds) -> float:
    pairs = 0.0 if not plan.reranks or speeds.pair is None else plan.to_learn * SPREAD * listed(plan) * speeds.pair
    return OF_A_QUERY * plan.to_learn * (speeds.passage + speeds.taught) + pairs


def _step(plan: Plan, speeds: Speeds) -> float:
    """Forward and backward of a batch's passages, and something for the rest.

    On a GPU encoding waits for the text to be read, and a compiled step does not: seen on an H200, it takes less than
    encoding the same passages.
    """
    times = 1.0 if plan.longest is None else 2.4  # on a CPU passages are cut
    return times * plan.batch * plan.per_query * speeds.passage * speeds.speedup  # training stays in one process


def listed(plan: Plan) -> int:
    """How many of the best of each judge are in a list to learn from."""
    return min(20, plan.best)
