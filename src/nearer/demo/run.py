"""The demo: adapt the bundled encoder to the docstrings on this machine, offline, and measure whether it helped.

`nearer adapt` gets the docstrings as documents and a few minutes. What it chose is then put to a search that it never
saw: the summary lines of held-out functions, each to find the rest of its docstring. At the end the same example
searches are asked before and after, with the nearest summary lines side by side.
"""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from nearer.adaptation.adapt import adapt
from nearer.adaptation.outcome import Outcome
from nearer.adaptation.plan import parse_budget, told_seconds
from nearer.adaptation.tournament import Candidates
from nearer.analysis.bootstrap import MeanPair, paired_bootstrap
from nearer.demo.docstrings import read_docstrings
from nearer.demo.held_out import DemoText, SummarySearch, hold_out
from nearer.encoder import Encoder
from nearer.encoder.sources import folder_at_hand
from nearer.errors import InputError
from nearer.search.fusion import LEXICAL, VECTORS, fuse
from nearer.search.lexical import LexicalIndex
from nearer.search.setup import read_setup
from nearer.storage.whole import write_whole

if TYPE_CHECKING:
    from rich.console import RenderableType

BASE = "wiki-mini"
BESIDE = "all-MiniLM-L6-v2"  # what a user would download instead: measured too where it is at hand
PER_PACKAGE = 100  # docstrings: some thousands in all, which is what a few minutes are enough for
HELD_OUT = 500
OUTSIDE = 60  # seconds that reading and the last search take on two slow cores, outside of adapt's budget
DOCUMENTS = "documents.jsonl"

# In the words of somebody who looks for a function, not in those of its docstring.
EXAMPLE_QUERIES = (
    "sort a list in place",
    "read a file line by line",
    "how long did it take to run",
    "remove duplicates",
    "split the data into training and test sets",
    "shortest way between two nodes of a graph",
)

Show = Callable[["RenderableType"], None]


@dataclass(frozen=True)
class SetUp:
    """An encoder, and how much BM25 counts beside its vectors' 1."""

    encoder: Encoder
    lexical_weight: float = 0.0

    def scores(
        self, queries: Sequence[str], texts: Sequence[str], *, progress: bool = False
    ) -> NDArray[np.floating[Any]]:
        """(queries, texts)"""
        asked = self.encoder.encode(list(queries), normalize=True)
        found = self.encoder.encode(list(texts), normalize=True, progress=progress)
        scores = {VECTORS: asked @ found.T}
        if not self.lexical_weight:
            return scores[VECTORS]
        numbers = np.tile(np.arange(len(texts)), (len(queries), 1))
        scores[LEXICAL] = LexicalIndex.build(texts).scores(queries, numbers)
        return fuse(scores, {VECTORS: 1.0, LEXICAL: self.lexical_weight}, numbers >= 0)


class Found(NamedTuple):
    """One example query and the nearest texts of each set-up, with their scores, the nearest first."""

    query: str
    before: list[tuple[str, float]]
    after: list[tuple[str, float]]


def run_demo(folder: Path, *, budget: str, seed: int, show: Show, progress: bool = True) -> None:
    """Run the demo in `folder`; an earlier demo there is replaced."""
    started = time.perf_counter()
    seconds = parse_budget(budget)
    _make_room(folder)
    show(f"this takes about {told_seconds(seconds + OUTSIDE)} ({budget} for adapt: --budget)")
    text = _read_text(folder, seed, show, progress)
    outcome = adapt(
        folder / DOCUMENTS, folder / "adapted", model=BASE, budget=budget, seed=seed, progress=progress, say=show
    )
    assert isinstance(outcome, Outcome)
    show(str(outcome))
    setup = read_setup(outcome.model)
    before = SetUp(Encoder.load(BASE))
    after = SetUp(Encoder.load(outcome.model), 0.0 if setup is None else setup.lexical_weight)
    set_ups = {f"{BASE}, as it is": before, f"adapted ({outcome.chosen.contender.name})": after}
    if (at_hand := folder_at_hand(BESIDE)) is not None:
        set_ups[f"{BESIDE}, as it is"] = SetUp(Encoder.load(at_hand))
    show(compare_set_ups(set_ups, text.search))
    if at_hand is None:
        show(f"{BESIDE} is not on this machine: it would be measured beside them")
    summaries = list(dict.fromkeys(document.title for document in text.documents))
    show(searches_table(search_examples(before, after, summaries)))
    show(
        f"model: {outcome.model}; what was tried: {folder / 'adapted' / 'report.html'}; "
        f"{told_seconds(time.perf_counter() - started)} in all"
    )


def _make_room(folder: Path) -> None:
    """An empty folder. Only what an earlier demo left is removed: the name may be that of somebody's work."""
    try:
        if folder.exists() and any(folder.iterdir()) and not (folder / DOCUMENTS).exists():
            raise InputError(f"{folder}: is there already and is not an earlier demo's; name another folder (--out).")
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{folder}: cannot be written ({error.strerror}).") from None


def _read_text(folder: Path, seed: int, show: Show, progress: bool) -> DemoText:
    docstrings, report = read_docstrings(per_package=PER_PACKAGE, progress=progress)
    show(str(report))
    text = hold_out(docstrings, HELD_OUT, seed=seed)
    show(
        f"{len(text.documents):,} documents to learn from; {len(text.search.queries):,} functions held out "
        f"({text.leaking:,} sentences left out because they stand in held-out docstrings)"
    )
    rows = ({"_id": each.id, "title": each.title, "text": each.text} for each in text.documents)
    try:
        write_whole(folder / DOCUMENTS, (json.dumps(row) + "\n" for row in rows))
    except OSError as error:
        raise InputError(f"{folder}: cannot be written ({error.strerror}).") from None
    return text


def compare_set_ups(set_ups: dict[str, SetUp], search: SummarySearch) -> RenderableType:
    """A table of NDCG@10 and of the difference to the first, with its paired bootstrap interval."""
    from rich.table import Table

    count = len(search.queries)
    table = Table(
        title=f"Which of {count:,} unseen docstrings belongs to this summary line? (retrieval: NDCG@10 × 100)",
        title_justify="left",
    )
    for column in ("set-up", "NDCG@10", "above the first", "95 % interval"):
        table.add_column(column, justify="left" if column == "set-up" else "right")
    first: NDArray[np.float64] | None = None
    for name, set_up in set_ups.items():
        found = 100 * measure(set_up, search)
        if first is None:
            first = found
            table.add_row(name, f"{found.mean():.1f}", "", "")
            continue
        compared = paired_bootstrap([MeanPair(found, first, "search")])
        interval = f"{compared.low:+.1f} to {compared.high:+.1f}"
        table.add_row(name, f"{found.mean():.1f}", f"{compared.difference:+.1f}", interval)
    return table


def measure(set_up: SetUp, search: SummarySearch) -> NDArray[np.float64]:
    """NDCG@10 of each query."""
    count = len(search.queries)
    numbers = np.tile(np.arange(count), (count, 1))
    scores = set_up.scores(search.queries, search.answers)
    return Candidates(numbers, np.arange(count), {VECTORS: scores}).ndcg({VECTORS: 1.0})


def search_examples(
    before: SetUp, after: SetUp, texts: Sequence[str], *, queries: Sequence[str] = EXAMPLE_QUERIES, top: int = 3
) -> list[Found]:
    """The `top` nearest texts by both set-ups; equal ones keep their order."""
    nearest = []
    for set_up in (before, after):
        scores = set_up.scores(queries, texts)
        order = np.argsort(-scores, axis=1, kind="stable")[:, :top]
        nearest.append([[(texts[at], float(row[at])) for at in best] for row, best in zip(scores, order, strict=True)])
    return [Found(*found) for found in zip(queries, *nearest, strict=True)]


def searches_table(searches: Sequence[Found]) -> RenderableType:
    """The searches as a table; what was only found after is set in bold."""
    from rich.table import Table
    from rich.text import Text

    table = Table(show_lines=True, expand=True, title="Example searches: nearest summary lines", title_justify="left")
    table.add_column("query", ratio=2)
    table.add_column("before", ratio=5)
    table.add_column("after", ratio=5)
    for query, before, after in searches:
        new = {text for text, _ in after} - {text for text, _ in before}
        # Text, not markup: a docstring may hold square brackets
        lines = [
            Text("\n").join(Text(text, style="bold" if text in bold else "") for text, _ in found)
            for found, bold in ((before, set[str]()), (after, new))
        ]
        table.add_row(Text(query, style="cyan"), *lines)
    return table
