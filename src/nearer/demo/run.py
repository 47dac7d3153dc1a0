"""The demo: learn from the docstrings on this machine, offline, and measure honestly whether it helped.

Three encoders are put to the same held-out task (find a function's summary line by the rest of its docstring): the
bundled base as it is, SimCSE with dropout views of single sentences, and SimCSE with pairs of a summary and a sentence
of its body. The held-out functions are in neither training text. At the end the same example searches are asked of two
encoders, with their nearest sentences side by side.
"""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from rich.console import RenderableType
from rich.table import Table

from nearer.demo.docstrings import read_docstrings
from nearer.demo.held_out import DemoText, hold_out
from nearer.encoder import Encoder
from nearer.encoder.comparing import Ranked, unit_rows
from nearer.errors import InputError, SettingError
from nearer.evaluation import evaluate
from nearer.evaluation.retrieval_task import TextEncoder, retrieve
from nearer.storage.whole import write_whole
from nearer.training import train

if TYPE_CHECKING:
    from rich.console import RenderableType


HELD_OUT = 1000
# measured on this task: more steps of dropout views hurt this base, whose loss is near 0 after 50
VIEWS = {"learning_rate": 1e-4, "max_steps": 50}


def run_demo(
    folder: Path, *, seed: int, show: Callable[[RenderableType], None], steps: int | None = None, progress: bool = True
) -> None:
    """Run the demo in `folder`; an earlier demo there is replaced. steps: at most so many in each training."""
    started = time.perf_counter()
    _make_room(folder)
    text = _text(folder, seed, show, progress)
    base = Encoder.load("wiki-mini", pooling="mean")
    limit = {} if steps is None else {"max_steps": steps}
    # short sentences, the same length on every machine, and no dev task: the held-out one below judges at the end
    common = {"seed": seed, "max_length": 32, "select_on": [], "test_on": []}
    views = train(
        "simcse-wiki-mini",
        folder / "sentences.txt",
        out=folder / "views",
        settings={**VIEWS, **common, **limit},
        progress=progress,
    )
    pairs = train(
        "simcse-pairs-wiki-mini",
        folder / "pairs.jsonl",
        out=folder / "pairs",
        settings={**common, **limit},
        progress=progress,
    )
    encoders = {
        "wiki-mini, untrained": base,
        "SimCSE, dropout views": Encoder.load(views.model),
        "SimCSE, summary and body": Encoder.load(pairs.model),
    }
    show(_scores(encoders, text, progress))
    show(searches_table(compare_searches(base, encoders["SimCSE, summary and body"], text.summaries)))
    show(f"models: {views.model} and {pairs.model}; {time.perf_counter() - started:.0f} s in all")


def _make_room(folder: Path) -> None:
    """An empty folder. Only what an earlier demo left is removed: the name may be that of somebody's work."""
    try:
        if folder.exists() and any(folder.iterdir()) and not (folder / "pairs.jsonl").exists():
            raise InputError(f"{folder}: is there already and is not an earlier demo's; name another folder (--out).")
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{folder}: cannot be written ({error.strerror}).") from None


def _text(folder: Path, seed: int, show: Callable[[RenderableType], None], progress: bool) -> DemoText:
    docstrings, report = read_docstrings(progress=progress)
    show(str(report))
    text = hold_out(docstrings, HELD_OUT, seed=seed)
    show(
        f"{len(text.sentences):,} sentences and {len(text.pairs):,} pairs to learn from; {len(text.task.queries):,} "
        f"functions held out ({text.leaking:,} sentences left out because they stand in held-out docstrings)"
    )
    try:
        write_whole(folder / "sentences.txt", (f"{line}\n" for line in text.sentences))
        rows = ({"sentence1": pair.first, "sentence2": pair.second} for pair in text.pairs)
        write_whole(folder / "pairs.jsonl", (json.dumps(row) + "\n" for row in rows))
    except OSError as error:
        raise InputError(f"{folder}: cannot be written ({error.strerror}).") from None
    return text


def _scores(encoders: dict[str, Encoder], text: DemoText, progress: bool) -> Table:
    task = text.task
    table = Table(
        title=f"Which of {len(task.candidates):,} summaries belongs to this docstring? (retrieval)",
        caption="everyday: how well graded pairs on other subjects are judged, which shows general quality",
        title_justify="left",
    )
    for column in ("encoder", "MRR", "recall@1", "recall@10", "everyday (STS)"):
        table.add_column(column, justify="left" if column == "encoder" else "right")
    for name, encoder in encoders.items():
        found = retrieve(encoder, task.queries, task.candidates, task.right, progress=progress)
        general = evaluate(encoder, ["everyday"]).average or 0.0
        figures = [100 * found.mrr, 100 * found.recall_at_1, 100 * found.recall_at_10, general]
        table.add_row(name, *(f"{figure:.1f}" for figure in figures))
    return table


# In the words of somebody who looks for a function, not in those of its docstring.
EXAMPLE_QUERIES = (
    "sort a list in place",
    "read a file line by line",
    "how long did it take to run",
    "remove duplicates",
    "split the data into training and test sets",
    "shortest way between two nodes of a graph",
)


class Search(NamedTuple):
    """One query and what each encoder found, the nearest first."""

    query: str
    before: list[Ranked]
    after: list[Ranked]


def compare_searches(
    before: TextEncoder,
    after: TextEncoder,
    sentences: Sequence[str],
    *,
    queries: Sequence[str] = EXAMPLE_QUERIES,
    top: int = 3,
    progress: bool = False,
) -> list[Search]:
    """Search `sentences` with both encoders."""
    first = search(before, queries, sentences, top=top, progress=progress)
    second = search(after, queries, sentences, top=top, progress=progress)
    return [Search(*found) for found in zip(queries, first, second, strict=True)]


def search(
    encoder: TextEncoder, queries: Sequence[str], sentences: Sequence[str], *, top: int, progress: bool = False
) -> list[list[Ranked]]:
    """For each query the `top` nearest sentences by cosine; equal ones keep their order."""
    if top < 1:
        raise SettingError(f"top: {top} is below 1.")
    if not queries or not sentences:
        return [[] for _ in queries]
    vectors = unit_rows(encoder.encode([*queries, *sentences], batch_size=64, progress=progress))
    found = []
    for query in vectors[: len(queries)]:
        cosines = vectors[len(queries) :] @ query  # (sentences,)
        order = np.argsort(-cosines, kind="stable")[:top]
        found.append([Ranked(int(index), float(cosines[index]), sentences[index]) for index in order])
    return found


def searches_table(searches: Sequence[Search]) -> RenderableType:
    """The searches as a table; what only the trained encoder found is set in bold."""
    from rich.table import Table
    from rich.text import Text

    table = Table(show_lines=True, expand=True, title="Example searches: the nearest sentences", title_justify="left")
    table.add_column("query", ratio=2)
    table.add_column("before training", ratio=5)
    table.add_column("after training", ratio=5)
    for query, before, after in searches:
        known = {ranked.place for ranked in before}
        new = {ranked.place for ranked in after} - known
        table.add_row(Text(query, style="cyan"), _lines(before, set()), _lines(after, new))
    return table


def _lines(found: Sequence[Ranked], new: set[int]) -> RenderableType:
    # Text, not markup: a docstring may hold square brackets
    from rich.text import Text

    lines = [
        Text(f"{ranked.score:.2f}  {ranked.sentence}", style="bold" if ranked.place in new else "") for ranked in found
    ]
    return Text("\n").join(lines)
