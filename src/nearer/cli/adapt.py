"""The command that makes search better on a pile of documents: adapt."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from nearer.cli import options
from nearer.cli.output import put, say, show_table
from nearer.errors import NearerError, SettingError

if TYPE_CHECKING:
    from nearer.adaptation.outcome import Outcome

SHOWN = 12  # set-ups


class ChooseBy(StrEnum):
    labels = "labels"
    tests = "tests"


class Pretraining(StrEnum):
    tsdae = "tsdae"
    teacher = "teacher"
    none = "none"


class AskedIn(StrEnum):
    documents = "documents"
    own = "own"


class Txt(StrEnum):
    auto = "auto"
    file = "file"
    line = "line"


def adapt(
    documents: Annotated[
        list[str],
        typer.Argument(metavar="DOCUMENTS…", help="Folders and files: txt, md, html, pdf, csv, jsonl, parquet."),
    ],
    out: Annotated[Path, typer.Option(help="Folder of the result. The same command goes on with an interrupted one.")],
    model: Annotated[
        str, typer.Option(help="The encoder to start from: a folder, a hub name, or wiki-mini.")
    ] = "wiki-mini",
    teacher: Annotated[
        list[str] | None, typer.Option(help="An encoder that knows more, to learn from; may be repeated.")
    ] = None,
    judge: Annotated[
        str | None,
        typer.Option(help="A cross-encoder, to learn from and as a reranker, such as ms-marco-MiniLM-L-12-v2."),
    ] = None,
    queries: Annotated[
        str | None, typer.Option(help="A log of real queries, one a line: no labels are needed.")
    ] = None,
    labels: Annotated[
        str | None,
        typer.Option(
            help="Labelled queries: a folder (queries.jsonl, qrels), or a file of query, document id and gain. They "
            "choose (from 50 on) and measure; nothing learns from them."
        ),
    ] = None,
    choose_by: Annotated[
        ChooseBy | None,
        typer.Option(help="With --labels: tests, and labels only measure what the made tests choose."),
    ] = None,
    llm: Annotated[
        str | None,
        typer.Option(help="A language model that writes queries to learn from: a folder, a GGUF file, a hub name."),
    ] = None,
    llm_test: Annotated[
        bool, typer.Option("--llm-test", help="Let it write a test too. Those of small models mislead the choice.")
    ] = False,
    pretrain: Annotated[
        Pretraining | None,
        typer.Option(
            help="What the base learns first, in a quarter of the time: TSDAE on the text, or a teacher's order of its "
            "sentences. Default: for a raw base the teacher, if one is trusted; else none."
        ),
    ] = None,
    serve_teachers: Annotated[
        bool,
        typer.Option(
            "--serve-teachers",
            help="Let a teacher be chosen itself, if it is better than all that is as fast as the base.",
        ),
    ] = False,
    pooling: options.Pooling = None,
    asked_in: Annotated[
        AskedIn | None,
        typer.Option(help="Whose words people ask in, the documents' or their own. Default: tests of both kinds."),
    ] = None,
    budget: Annotated[
        str, typer.Option(help="The time that there is, such as 90s, 20min, 2h. It decides how much is tried.")
    ] = "20min",
    most_steps: Annotated[
        int | None,
        typer.Option(
            min=0,
            help="The most steps of a student, whatever the budget; below 20: none. Default: 2000, of a raw base 8000.",
        ),
    ] = None,
    most_queries: Annotated[
        int | None, typer.Option(min=1, help="The most queries that students learn from. Default: 16000.")
    ] = None,
    columns: Annotated[
        str | None,
        typer.Option(help="Columns of tables, such as text=body,title=headline. Default: by their usual names."),
    ] = None,
    encoding: options.Encoding = "utf-8",
    txt: Annotated[
        Txt, typer.Option(help="Whether a plain text file is one document, or has one on each line.")
    ] = Txt.auto,
    seed: Annotated[int, typer.Option(min=0, max=options.LARGEST_SEED, help="Decides all that is random.")] = 0,
    device: options.Device = None,
    engine: Annotated[
        options.EngineName,
        typer.Option(help="Encode and score in this process, or by workers of Ray (docs/adapt.md, Large collections)."),
    ] = options.EngineName.process,
    workers: options.Workers = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Read, measure and say what would be done; write nothing.")
    ] = False,
) -> None:
    """Make search better on your own documents, without labels, and prove it on documents that were kept back."""
    from nearer.adaptation.adapt import adapt as run
    from nearer.adaptation.outcome import tell_labels, tell_teachers
    from nearer.adaptation.plan import MOST_QUERIES, Plan

    options.check_workers(engine, workers)
    try:
        outcome = run(
            documents,
            out,
            model=model,
            teachers=teacher or [],
            judge=judge,
            queries=queries,
            labels=labels,
            choose_by=None if choose_by is None else choose_by.value,
            llm=llm,
            llm_test=llm_test,
            pretrain=None if pretrain is None else pretrain.value,
            serve_teachers=serve_teachers,
            pooling=pooling,
            asked_in=None if asked_in is None else asked_in.value,
            budget=budget,
            most_steps=most_steps,
            most_queries=MOST_QUERIES if most_queries is None else most_queries,
            columns=split_columns(columns),
            encoding=encoding,
            txt=txt.value,
            seed=seed,
            device=device,
            engine=engine.value,
            workers=workers,
            dry_run=dry_run,
            progress=True,
            say=say,
        )
    except NearerError as error:
        if error.argument == "documents":  # here they are no option
            error.argument = None
        raise
    if isinstance(outcome, Plan):
        return
    show_table(_standings(outcome))
    put(str(outcome))
    for line in [*tell_labels(outcome), *tell_teachers(outcome)]:
        put(line)
    put(f"page: {outcome.folder / 'report.html'}")


def split_columns(text: str | None) -> dict[str, str] | None:
    """`text=body,title=headline` as a dictionary."""
    if text is None:
        return None
    parts = [part.partition("=") for part in text.split(",")]
    if not all(name.strip() and sign and column.strip() for name, sign, column in parts):
        raise SettingError(f"columns: {text!r} is not of the form text=NAME,title=NAME,id=NAME.", argument="columns")
    return {name.strip(): column.strip() for name, _, column in parts}


def _standings(outcome: Outcome) -> Table:
    table = Table(
        title="Set-ups on the tests made of the text (retrieval: NDCG@10 × 100, weighted mean)", title_justify="left"
    )
    for column in ("set-up", "gain over the base", "95 % interval", ""):
        table.add_column(column, justify="left" if column in ("set-up", "") else "right")
    for standing in outcome.standings[:SHOWN]:
        mark = "chosen" if standing == outcome.chosen else ""
        table.add_row(
            standing.contender.name, f"{standing.gain:+.2f}", f"{standing.low:+.2f} to {standing.high:+.2f}", mark
        )
    return table
