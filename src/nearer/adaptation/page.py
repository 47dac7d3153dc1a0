"""The page of a run of adapt: what was found, tried and chosen, in one file that asks for nothing from anywhere.

`page.html.jinja` has the words. Here are the tables and drawings that it puts between them, and nothing that the
outcome does not say.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nearer.adaptation.advice import find_advice, next_commands, repeat_command
from nearer.adaptation.label_figures import LABELS, LabelFigures
from nearer.adaptation.outcome import Change, Outcome
from nearer.adaptation.tournament import BASE, FASTER, JUDGED, LISTS, PAIRS, Contender, Standing
from nearer.report.chart import BETTER, WORSE, Axis, Chart, interval, linear
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
    sentence,
    short,
    signed,
    table,
)
from nearer.report.template import STYLES, fill_template, read_markup
from nearer.search.fusion import LEXICAL, RERANKER
from nearer.storage.sealed import write_sealed_json
from nearer.storage.whole import write_whole
from nearer.versions import VERSION

HERE = Path(__file__).parent
RESULTS, PAGE = "results.json", "report.html"
SHOWN_FILES, SHOWN_BLOCKS, SHOWN_ANSWER = 50, 10, 200


@dataclass(frozen=True)
class Block:
    """What many documents share, and how many."""

    text: str
    documents: int


def write_outcome(outcome: Outcome) -> None:
    """`results.json` and `report.html`, in the outcome's folder."""
    write_sealed_json(outcome.folder / RESULTS, outcome.to_dict())
    write_whole(outcome.folder / PAGE, render_page(outcome))


def render_page(outcome: Outcome) -> str:
    account: dict[str, Any] = dict(outcome.account)
    compared = _compared(outcome)
    of_base = next(standing for standing in outcome.standings if standing.contender == Contender(BASE))
    functions: dict[str, Callable[..., str]] = {
        "count": count,
        "duration": duration,
        "figure": figure,
        "listed": listed,
        "sentence": sentence,
        "signed": signed,
        "code": code,
    }
    return fill_template(
        HERE / "page.html.jinja",
        functions,
        outcome=outcome,
        account=account,
        base=last_part(outcome.base),
        judge=None if outcome.judge is None else last_part(outcome.judge),
        compared=compared,
        ndcg_base=weighted_mean(outcome, of_base),
        ndcg_chosen=weighted_mean(outcome, outcome.chosen),
        asked_in=outcome.asked.get("asked_in"),
        has_judged=any(name.endswith(JUDGED) for name in outcome.tests),
        latency=find_latency(outcome, outcome.chosen.contender),
        names=explain_encoders(outcome),
        files=list(account["unreadable"].items())[:SHOWN_FILES],
        noted=[(file["path"], words) for file in account["files"] if (words := _remarks(file))][:SHOWN_FILES],
        blocks=[Block(text, number) for text, number in list(account["boilerplate"]["blocks"].items())[:SHOWN_BLOCKS]],
        tests=tabulate_tests(outcome, compared),
        labelled=None if outcome.labels is None else tabulate_labels(outcome, outcome.labels),
        label_judges=None if outcome.labels is None else tabulate_label_judges(outcome, outcome.labels),
        gains=None if compared is None else draw_gains(outcome, compared),
        setups=tabulate_setups(outcome),
        details=tabulate_details(outcome),
        judges=tabulate_judges(outcome),
        rose=[_shown(change) for change in outcome.changes if _rose(change)],
        fell=[_shown(change) for change in outcome.changes if not _rose(change)],
        advice=find_advice(outcome),
        next_step=next_commands(outcome),
        repeated=repeat_command(outcome),
        version=VERSION,
        style=read_markup(*STYLES, HERE / "page.css"),
    )


def weighted_mean(outcome: Outcome, standing: Standing) -> float:
    """Of its NDCG@10 over the tests, as they count."""
    return sum(test["weight"] * standing.by_test[name] for name, test in outcome.tests.items())


def last_part(name: str) -> str:
    """Of a path; a name on the hub stays as it is."""
    return Path(name).name if name.startswith(("/", ".", "~")) or name.count("/") > 1 else name


def explain_encoders(outcome: Outcome) -> list[tuple[str, str]]:
    """What the names of encoders mean, of those that took part."""
    base = last_part(outcome.base)
    learnt = {"tsdae": " after TSDAE on the text", "teacher": " after a teacher's order of the text's sentences"}
    start = base + learnt.get(outcome.pretrained or "", "")
    words = {
        BASE: f"{base} as it is",
        LISTS: f"{start}, trained to rank passages as the trusted judges do",
        FASTER: f"{start}, trained to rank passages as the trusted judges do, at twice the learning rate",
        PAIRS: f"{start}, trained on pairs from the text: a title or heading and what stands below it",
    }
    teachers = [standing.contender.encoder for standing in outcome.standings if standing.contender.teacher]
    words |= {name: f"{name}, a teacher, as it is" for name in teachers}
    there = {standing.contender.encoder for standing in outcome.standings}
    there |= {name for rung in outcome.rungs for name in rung.scores}
    return [(name, words[name]) for name in words if name in there]


def find_latency(outcome: Outcome, contender: Contender) -> float | None:
    """Milliseconds of a query: all parts that the set-up has; None where one of them was not measured."""
    parts = [contender.encoder, *[LEXICAL] * bool(contender.lexical), *[RERANKER] * bool(contender.reranker)]
    measured = [outcome.latency.get(part) for part in parts]
    return None if None in measured else sum(part for part in measured if part is not None)


def find_size(outcome: Outcome, contender: Contender) -> str:
    """How many weights all its models have."""
    parts = [contender.encoder, *[RERANKER] * bool(contender.reranker)]
    if any(part not in outcome.weights for part in parts):
        return LACKING
    return short(sum(outcome.weights[part] for part in parts))


def _compared(outcome: Outcome) -> Standing | None:
    """Whose figures stand beside the base's: the chosen one's, or those of the best that was tried."""
    if outcome.chosen.contender != Contender(BASE):
        return outcome.chosen
    return next((standing for standing in outcome.standings if standing.contender != Contender(BASE)), None)


def tabulate_tests(outcome: Outcome, compared: Standing | None) -> Html:
    head = ["test", "queries", "words in common", "weight", "base"]
    rows = []
    for name, test in outcome.tests.items():
        row = [name, f"{int(test['queries']):,}", f"{100 * test['overlap']:.0f} %", f"{100 * test['weight']:.0f} %"]
        row.append(figure(test["base"]))
        if compared is not None:
            row += [figure(compared.by_test[name]), signed(compared.by_test[name] - test["base"])]
        rows.append(row)
    if compared is not None:
        head += ["chosen" if outcome.is_better else "best tried", "gain"]
    return table("Tests made of the text (retrieval: NDCG@10 × 100)", head, rows)


def tabulate_labels(outcome: Outcome, labels: LabelFigures) -> Html:
    """All set-ups by the labelled queries that measured."""
    lowest = min(0.0, *(standing.low for standing in labels.standings))
    highest = max(0.0, *(standing.high for standing in labels.standings))
    on_tests = {standing.contender: standing.gain for standing in outcome.standings}
    rows = [
        [
            _marked(outcome, standing),
            figure(standing.by_test[LABELS]),
            signed(standing.gain),
            cell(f"{signed(standing.low)} to {signed(standing.high)}", draw_interval(standing, lowest, highest)),
            signed(on_tests[standing.contender]),
        ]
        for standing in labels.standings
    ]
    head = ["set-up", "NDCG@10", "gain", "95 % interval", "gain on made tests"]
    queries = count(labels.measured, "labelled query", "labelled queries")
    return table(f"All set-ups by {queries} (NDCG@10 × 100 over documents)", head, rows)


def tabulate_label_judges(outcome: Outcome, labels: LabelFigures) -> Html:
    names = name_judges(outcome)
    rows = [(names.get(judge, judge), figure(value)) for judge, value in labels.judges.items()]
    queries = count(labels.queries, "labelled query", "labelled queries")
    return table(f"Judges before anything was trained, by {queries}", ["judge", "NDCG@10"], rows)


def draw_gains(outcome: Outcome, compared: Standing) -> Html:
    """A bar for each test, from 0 to the gain."""
    gains = {name: compared.by_test[name] - test["base"] for name, test in outcome.tests.items()}
    rows = len(gains)
    # the first test is at the top
    up = Axis("", -0.5, rows - 0.5, tuple((float(rows - 1 - row), name) for row, name in enumerate(gains)))
    across = linear("points of NDCG@10", [0.0, *gains.values()], whole=True, least=1.0)
    chart = Chart(across, up, height=52 + 22 * rows, grid=False)
    for row, gain in enumerate(gains.values()):
        level = rows - 1 - row
        chart.bar(0, gain, level - 0.3, level + 0.3, BETTER if gain >= 0 else WORSE)
    chart.line([(0, -0.5), (0, rows - 0.5)], 0, kind="axis")
    said = "; ".join(f"{name} {signed(gain)}" for name, gain in gains.items())
    return drawing(chart, "Gain by test", f"{compared.contender.name} above the base.", label=f"Gain by test: {said}")


def tabulate_setups(outcome: Outcome) -> Html:
    lowest = min(0.0, *(standing.low for standing in outcome.standings))
    highest = max(0.0, *(standing.high for standing in outcome.standings))
    rows = [
        [
            _marked(outcome, standing),
            signed(standing.gain),
            cell(f"{signed(standing.low)} to {signed(standing.high)}", draw_interval(standing, lowest, highest)),
            figure(find_latency(outcome, standing.contender), 1),
            find_size(outcome, standing.contender),
        ]
        for standing in outcome.standings
    ]
    head = ["set-up", "gain", "95 % interval", "ms a query", "weights"]
    return table("All set-ups by their gain over the base (NDCG@10 × 100, weighted mean over the tests)", head, rows)


def tabulate_details(outcome: Outcome) -> Html:
    """NDCG@10 of every set-up in every test; the best of each test stands out."""
    tests = list(outcome.tests)
    best = {name: max(standing.by_test[name] for standing in outcome.standings) for name in tests}
    rows = [
        [
            _marked(outcome, standing),
            *(
                cell(figure(standing.by_test[name]), kind="best" if standing.by_test[name] == best[name] else None)
                for name in tests
            ),
        ]
        for standing in outcome.standings
    ]
    return table("NDCG@10 × 100 by test", ["set-up", *tests], rows)


def _marked(outcome: Outcome, standing: Standing) -> Html:
    """The set-up's name, and whether it is the chosen one, the base, the best encoder alone."""
    marks = {
        "chosen": standing.contender == outcome.chosen.contender,
        "as it is": standing.contender == Contender(BASE),
        "best encoder alone": standing.contender == outcome.encoder_alone.contender,
    }
    chosen = element("strong" if marks["chosen"] else "span", standing.contender.name)
    return join([chosen, *(element("span", mark, class_="mark") for mark, there in marks.items() if there)], " ")


def draw_interval(standing: Standing, lowest: float, highest: float) -> Html:
    """From the low to the high end, a dot at the gain, and where 0 is."""
    words = f"{signed(standing.gain)}, from {signed(standing.low)} to {signed(standing.high)}"
    return interval(standing.gain, (standing.low, standing.high), (lowest, highest), label=words)


def tabulate_judges(outcome: Outcome) -> Html:
    """All that could judge, and how much each counts; 0 where it was not trusted."""
    rows = [(name, f"{outcome.judges.get(judge, 0.0):g}") for judge, name in name_judges(outcome).items()]
    return table("How much each judge counts", ["judge", "weight"], rows)


def name_judges(outcome: Outcome) -> dict[str, str]:
    """All that could judge, as the page calls them."""
    asked = outcome.asked
    names = {BASE: f"{last_part(outcome.base)} (the base)"}
    names |= {Path(teacher).name: f"{last_part(teacher)} (teacher)" for teacher in asked["teachers"]}
    names[LEXICAL] = "BM25 (words in common)"
    if asked["judge"] is not None and outcome.plan["reranks"]:
        names[RERANKER] = f"{last_part(asked['judge'])} (cross-encoder)"
    return names


def _remarks(file: dict[str, Any]) -> str:
    """What was dropped of a file, and how it was read where that was a guess."""
    return "; ".join([*(f"{number:,} {reason}" for reason, number in file["dropped"].items()), *file["notes"]])


@dataclass(frozen=True)
class ShownChange:
    """A query as the page shows it. answer: its beginning."""

    test: str
    query: str
    answer: str
    before: str
    after: str


def _rose(change: Change) -> bool:
    before, after = (rank or float("inf") for rank in (change.before, change.after))
    return after < before


def _shown(change: Change) -> ShownChange:
    begin = change.answer[:SHOWN_ANSWER].rstrip()
    answer = begin if len(change.answer) <= SHOWN_ANSWER else f"{begin} …"
    before, after = (str(rank) if rank else "not found" for rank in (change.before, change.after))
    return ShownChange(change.test, change.query, answer, before, after)
