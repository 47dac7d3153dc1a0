"""Example searches: the same questions asked of two encoders, their nearest sentences side by side."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from nearer.encoder.comparing import Ranked, unit_rows
from nearer.errors import SettingError
from nearer.evaluation.retrieval_task import TextEncoder

if TYPE_CHECKING:
    from rich.console import RenderableType

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
