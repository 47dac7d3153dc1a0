"""The stages of a run of adapt: tests, judges, students, a tournament, a decision. Each keeps what it made."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace

import numpy as np

from nearer.adaptation.halving import Student
from nearer.adaptation.judged_tests import make_judged_tests
from nearer.adaptation.judging import Collection
from nearer.adaptation.kept import Kept
from nearer.adaptation.label_figures import (
    LABELS,
    LabelFigures,
    LabelledCandidates,
    Split,
    choose_by_labels,
    correlate,
    measure_labels,
    split_labels,
)
from nearer.adaptation.made_tests import AnyTest, MadeTest, hold_out, make_tests, make_written_test
from nearer.adaptation.models import count_weights
from nearer.adaptation.outcome import Outcome, find_changes, measure_latency, write_documents, write_model
from nearer.adaptation.page import write_outcome
from nearer.adaptation.plan import RAW_MOST_STEPS, Plan, parse_budget, settle, told_seconds
from nearer.adaptation.refit import Refit, may_refit, refit
from nearer.adaptation.state import MODEL, WORK, Work, digest, keep_settled_plan
from nearer.adaptation.students import may_train, train_students
from nearer.adaptation.tournament import (
    BASE,
    REFIT,
    Candidates,
    Contender,
    Standing,
    all_contenders,
    best_fusion,
    choose,
    hold_tournament,
    is_far_below,
    weigh_tests,
)
from nearer.adaptation.writing import count_styles, told_styles
from nearer.encoder import Encoder
from nearer.search.fusion import LEXICAL, RERANKER

HELD_OUT, MOST_HELD_OUT = 1 / 3, 2500
TRUSTED = "trusted judges together"


def run_stages(work: Work) -> Outcome:
    started = time.perf_counter()
    plan, say = work.plan, work.say
    held_out = hold_out(work.passages, share=HELD_OUT, most=MOST_HELD_OUT, random=work.random("hold out"))
    tests = make_tests(
        work.passages,
        held_out,
        work.words,
        queries=plan.queries,
        random=work.random("tests"),
        asked_in=work.asked.get("asked_in"),
    )
    if plan.written_tests:
        tests += _write_test(work, np.flatnonzero(held_out).tolist())
    kept = Kept(work.out / WORK / "kept")
    texts = [passage.titled for passage in work.passages]
    collection = Collection(texts, tests, kept, progress=work.progress, workforce=work.workforce)
    collection.cross = work.models.cross
    say(f"tests made of {int(held_out.sum()):,} passages that training never sees: {', '.join(collection.tests)}")
    collection.add_encoder(BASE, work.models.base, BASE)
    for name, teacher in work.models.teachers.items():
        collection.add_encoder(name, teacher, f"teacher-{digest(name)[:8]}")
    knowing = [BASE, *work.models.teachers]
    judges = [*knowing, LEXICAL, *([RERANKER] if work.models.cross else [])]
    first = _measure_tests(work, collection, tests, knowing, "before")
    of_tests = _weigh(work, first)
    weights, above = best_fusion(first, judges, BASE, of_tests)
    work.base_is_raw = is_far_below(first, BASE, list(work.models.teachers), of_tests)
    say(f"judges to trust on this text: {_told(weights)}; {above:+.1f} points of NDCG@10 above the base")
    if not work.serve_teachers:  # a teacher would agree with itself
        work.judged = make_judged_tests(work, collection, first, weights)
    work.test_weights = _weigh(work, {**first, **_measure_tests(work, collection, work.judged, knowing, "before")})
    by_labels = _measure_judges(work, collection, knowing, judges, weights)
    plan = _settle(work, time.perf_counter() - started, may_train(work, weights, above))
    before_training = time.perf_counter()
    students = train_students(work, collection, ~held_out, weights, above) if plan.trains else []
    trained_for = time.perf_counter() - before_training
    for name, folder in work.students.items():
        collection.add_encoder(name, Encoder.load(folder, device=work.models.base.device), name)
    by = [BASE, *work.students, *(work.models.teachers if work.serve_teachers else ())]
    last = _measure_tests(work, collection, [*tests, *work.judged], by, "after")
    labelled = _measure_labels(work, collection, by, "after")
    decision = _decide(work, last, labelled, by, by_labels)
    left = parse_budget(work.asked["budget"]) - (time.perf_counter() - started) - trained_for
    if may_refit(work, decision.chosen.contender.encoder, students, held_out, left):
        decision = _refit(work, collection, decision, students, weights)
    teachers = [] if work.serve_teachers else _measure_teachers(work, first)
    seconds = time.perf_counter() - started
    return _write(work, collection, decision, last, labelled, by, teachers, weights, above, seconds)


def _measure_teachers(work: Work, first: Mapping[str, Candidates]) -> list[Standing]:
    """Teachers that are certainly better than the base themselves, by the tests with known answers: of each its best
    set-up, with BM25 or without. The page tells them; they are not chosen."""
    base, weights = Contender(BASE), _weigh(work, first)
    found = []
    for name in work.models.teachers:
        contenders = [base, *all_contenders([name], reranker=False, teachers=[name])]
        found.append(choose(hold_tournament(first, contenders, base, weights=weights, seed=work.seed), base))
    return [standing for standing in found if standing.contender != base]


def _measure_tests(
    work: Work, collection: Collection, tests: Sequence[AnyTest], by: Sequence[str], key: str
) -> dict[str, Candidates]:
    return {test.name: collection.measure(test, best=work.plan.best, by=by, key=key) for test in tests}


def _weigh(work: Work, tests: Mapping[str, Candidates]) -> dict[str, float]:
    return weigh_tests(tests, Contender(BASE), reranker=work.models.cross is not None)


def _settle(work: Work, taken: float, students: Sequence[str]) -> Plan:
    """How many steps there is time for is known better now, and so is who can learn."""
    plan = work.plan
    if work.base_is_raw and plan.expected is not None and "most_steps" not in work.asked:
        plan = replace(plan, most_steps=RAW_MOST_STEPS)
    plan = settle(plan, taken, students)
    if plan != work.plan:
        keep_settled_plan(work.out / WORK, plan)
        if plan.told_training != work.plan.told_training:
            work.say(f"the tests took {told_seconds(taken)}; new plan: {plan.told_training}")
        work.plan = plan
    return plan


def _write_test(work: Work, numbers: Sequence[int]) -> list[MadeTest]:
    """One more test: queries that the language model wrote for passages that were held out."""
    written = work.write(numbers, work.out / WORK / "written-tests", work.plan.written_tests)
    work.say(f"{len(written):,} queries written as a test: {told_styles(written)}")
    return make_written_test(work.passages, written, work.words)


def _measure_labels(work: Work, collection: Collection, by: Sequence[str], key: str) -> LabelledCandidates | None:
    if work.labels is None:
        return None
    return measure_labels(collection, work.passages, work.labels, best=work.plan.best, by=by, key=key)


def _measure_judges(
    work: Work, collection: Collection, knowing: Sequence[str], judges: Sequence[str], trusted: dict[str, float]
) -> dict[str, float]:
    """NDCG@10 by labels of each judge alone and of the trusted ones together."""
    labelled = _measure_labels(work, collection, knowing, "before")
    if labelled is None:
        return {}
    weights = {**{judge: {judge: 1.0} for judge in judges}, TRUSTED: trusted}
    return {name: 100 * float(labelled.ndcg(counted).mean()) for name, counted in weights.items()}


@dataclass(frozen=True)
class Decision:
    """standings: of all set-ups in the tests, which have these weights; chosen, alone: the set-up and the encoder.
    refit: the encoder that is trained again afterwards."""

    standings: list[Standing]
    chosen: Standing
    alone: Standing
    labels: LabelFigures | None
    weights: dict[str, float]
    refit: Refit | None = None


def _refit(
    work: Work, collection: Collection, decision: Decision, students: Sequence[Student], weights: dict[str, float]
) -> Decision:
    """With the chosen encoder trained again, and what labels say of it."""
    chosen, labels = decision.chosen.contender, decision.labels
    made = refit(work, collection, chosen.encoder, students, weights)
    if made is not None and made.kept and labels is not None:
        again, alone = _measure_refit(work, collection, chosen)
        labels = replace(labels, refit=again, refit_alone=alone)
    return replace(decision, refit=made, labels=labels)


def _measure_refit(work: Work, collection: Collection, chosen: Contender) -> tuple[Standing, Standing]:
    """The chosen set-up with the encoder that was trained again, and this alone, by the queries that measure."""
    labelled = _measure_labels(work, collection, [BASE, chosen.encoder, REFIT], REFIT)
    assert labelled is not None
    measuring = labelled.part(_split_labels(work, labelled).measuring)
    base, again, alone = Contender(BASE), replace(chosen, encoder=REFIT), Contender(REFIT)
    standings = hold_tournament({LABELS: measuring}, [base, again, alone], base, seed=work.seed)
    by_contender = {standing.contender: standing for standing in standings}
    return by_contender[again], by_contender[alone]


def _split_labels(work: Work, labelled: LabelledCandidates) -> Split:
    return split_labels(len(labelled), chooses=work.labels_choose, random=work.random("split labels"))


def _decide(
    work: Work,
    tests: dict[str, Candidates],
    labelled: LabelledCandidates | None,
    by: Sequence[str],
    judges: dict[str, float],
) -> Decision:
    base = Contender(BASE)
    contenders = all_contenders(by, reranker=work.models.cross is not None, teachers=work.models.teachers)
    weights = _weigh(work, tests)
    standings = hold_tournament(tests, contenders, base, weights=weights, seed=work.seed)
    alone = [standing for standing in standings if standing.contender.is_alone]
    if labelled is None or work.labels is None:
        return Decision(standings, choose(standings, base), choose(alone, base), None, weights)
    split = _split_labels(work, labelled)
    if work.labels_choose:
        asked = labelled.part(split.choosing)
        chosen, chosen_alone = (choose_by_labels(asked, each, base, seed=work.seed) for each in (standings, alone))
    else:
        chosen, chosen_alone = choose(standings, base), choose(alone, base)
    measured = hold_tournament({LABELS: labelled.part(split.measuring)}, contenders, base, seed=work.seed)
    by_contender = {standing.contender: standing for standing in measured}
    figures = LabelFigures(
        queries=len(labelled),
        chose=len(split.choosing),
        measured=len(split.measuring),
        standings=measured,
        chosen=by_contender[chosen.contender],
        alone=by_contender[chosen_alone.contender],
        correlation=correlate(labelled, standings),
        judges=judges,
        remarks=work.labels.remarks,
    )
    return Decision(standings, chosen, chosen_alone, figures, weights)


def _write(
    work: Work,
    collection: Collection,
    decision: Decision,
    tests: dict[str, Candidates],
    labelled: LabelledCandidates | None,
    by: Sequence[str],
    teachers: list[Standing],
    weights: dict[str, float],
    above: float,
    seconds: float,
) -> Outcome:
    base, chosen = Contender(BASE), decision.chosen.contender
    of_base = next(standing for standing in decision.standings if standing.contender == base)
    handed_over = REFIT if decision.refit is not None and decision.refit.kept else chosen.encoder
    write_model(work.out / MODEL, collection.encoders[handed_over], chosen, work.models.cross, work.judge)
    write_documents(work.out, work.documents.documents)
    all_tests: list[AnyTest] = [*collection.tests.values(), *work.judged]
    asked = {name: (test.queries, tests[name]) for name, test in collection.tests.items()}
    shown = list(dict.fromkeys([*by, *(standing.contender.encoder for standing in teachers)]))
    of_labels = None if work.labels is None or labelled is None else {LABELS: (work.labels.queries, labelled)}
    outcome = Outcome(
        folder=work.out,
        model=work.out / MODEL,
        base=work.model,
        judge=None if work.models.cross is None else work.judge,
        account=work.documents.account.to_dict(),
        passages=collection.passages,
        tests={
            test.name: {
                "queries": len(test),
                "overlap": test.overlap,
                "weight": decision.weights[test.name],
                "base": of_base.by_test[test.name],
            }
            for test in all_tests
        },
        judges=weights,
        judges_above=above,
        standings=decision.standings,
        chosen=decision.chosen,
        encoder_alone=decision.alone,
        latency=measure_latency(collection, shown, work.models.cross, work.plan.best),
        changes=find_changes(collection.texts, of_labels or asked, base, chosen),
        plan=asdict(work.plan),
        seconds=seconds,
        trained=bool(work.students),
        asked=work.asked,
        remarks=work.remarks,
        all_passages=work.all_passages,
        weights=count_weights({name: collection.encoders[name] for name in shown}, work.models.cross),
        labels=decision.labels,
        written=count_styles(work.written),
        rungs=work.rungs,
        refit=decision.refit,
        pretrained=work.pretrained,
        teachers=teachers,
    )
    write_outcome(outcome)
    return outcome


def _told(weights: dict[str, float]) -> str:
    names = {LEXICAL: "BM25", RERANKER: "the cross-encoder", BASE: "the base"}
    return " + ".join(f"{weight:g} × {names.get(judge, judge)}" for judge, weight in weights.items())
