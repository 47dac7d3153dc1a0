"""The command construct queries: a language model writes what people might ask for passages of documents."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from nearer.cli import options
from nearer.cli.language_models import (
    BATCH_HELP,
    LLM_HELP,
    Kind,
    KindName,
    Precision,
    Temperature,
    TopP,
    choose_batch,
    tell_troubles,
)
from nearer.cli.output import say
from nearer.errors import SettingError

if TYPE_CHECKING:
    from nearer.construct.queries import QueriesResult, QuerySettings

LONGEST = 200


def queries(
    documents: Annotated[
        list[Path],
        typer.Option(help="Files and folders: txt, md, html, pdf, csv, tsv, jsonl, json, parquet. Can be repeated."),
    ],
    llm: Annotated[str, typer.Option(help=LLM_HELP)],
    out: Annotated[Path, typer.Option(help="Folder of the data set. The same command continues an interrupted one.")],
    styles: Annotated[
        str, typer.Option(help="How queries are written; one is drawn for each.")
    ] = "question,keywords,claim,plain_words",
    per_passage: Annotated[int, typer.Option(min=1, help="Queries for each passage, of different styles.")] = 1,
    limit: Annotated[
        int | None,
        typer.Option(
            min=1, help="Ask for so many queries, of passages drawn at random. A later run without this continues."
        ),
    ] = None,
    template: Annotated[
        list[str] | None,
        typer.Option(
            metavar="STYLE=FILE", help="Instruction of your own for a style: a text file with {passage} in it."
        ),
    ] = None,
    columns: Annotated[
        str | None, typer.Option(help="Columns of tables: 'text=body,title=headline,id=key'. Default: usual names.")
    ] = None,
    encoding: options.Encoding = "utf-8",
    longest: Annotated[int, typer.Option(min=8, help="Words of a passage, at most.")] = LONGEST,
    kind: Kind = KindName.auto,
    batch: Annotated[int | None, typer.Option(min=1, help=BATCH_HELP.format("queries"))] = None,
    max_new_tokens: Annotated[int, typer.Option(min=1, help="Most tokens of a query.")] = 64,
    temperature: Temperature = 0.7,
    top_p: TopP = 0.9,
    seed: Annotated[
        int, typer.Option(min=0, max=options.LARGEST_SEED, help="Seed of passages, styles and drawn tokens.")
    ] = 0,
    device: options.Device = None,
    precision: Precision = None,
    show: Annotated[int, typer.Option(min=0, help="Print so many queries, and as many rejected answers.")] = 0,
    format: Annotated[options.FormatName, typer.Option(help="File format of the data set.")] = options.FormatName.jsonl,
) -> None:
    """Let a language model write queries for passages of your documents.

    OUT/data.jsonl has a query a line with its kind and its passage's id, OUT/about.json how it was made and what was
    rejected, and why.
    """
    from nearer.adaptation.documents import read_documents
    from nearer.adaptation.passages import split_passages
    from nearer.construct.construction import check_folder
    from nearer.construct.engines import load_engine
    from nearer.construct.queries import QueryPassage, construct_queries
    from nearer.versions import library_versions

    # what can be wrong without a model first: loading it takes time
    settings = _settings(styles, per_passage, template or [])
    check_folder(out)
    found = read_documents(
        documents, columns=_columns(columns), encoding=encoding, near_duplicates=False, progress=True
    )
    say(str(found.account))
    passages = [
        QueryPassage(passage.id, passage.titled)
        for document in found.documents
        for passage in split_passages(document, longest)
    ]
    say(f"{len(passages):,} passages of at most {longest} words")
    batch = choose_batch(batch, llm, device)
    engine = load_engine(
        llm,
        kind=kind.value,
        batch=batch,
        max_new_tokens=max_new_tokens,
        temperature=temperature,
        top_p=top_p,
        seed=seed,
        device=device,
        precision=precision,
    )
    result = construct_queries(
        passages,
        engine,
        settings,
        out,
        seed=seed,
        limit=limit,
        batch=batch,
        format=format.value,
        notes={"llm": llm, "documents": [str(path) for path in documents], "versions": library_versions()},
        progress=True,
    )
    _tell(result)
    tell_troubles(engine)
    if show:
        _show(out, show)


def _settings(styles: str, per_passage: int, templates: list[str]) -> QuerySettings:
    from nearer.construct.queries import QuerySettings, read_query_template

    files = {}
    for given in templates:
        style, equals, path = given.partition("=")
        if not equals:
            raise SettingError(f"--template: {given!r} is not of the form STYLE=FILE, such as question=own.txt.")
        files[style.strip()] = read_query_template(path)
    names = options.split_names(styles)
    return QuerySettings(tuple(names), per_passage, files)  # type: ignore[arg-type]  # it looks at the names


def _columns(columns: str | None) -> dict[str, str] | None:
    if columns is None:
        return None
    pairs = [part.partition("=") for part in options.split_names(columns)]
    if not all(name and equals and column for name, equals, column in pairs):
        raise SettingError(f"--columns: {columns!r} is not of the form text=body,title=headline,id=key.")
    return {name.strip(): column.strip() for name, _, column in pairs}


def _tell(result: QueriesResult) -> None:
    kinds = ", ".join(f"{count:,} {kind}" for kind, count in sorted(result.kinds.items()))
    say(f"{result.data}: {result.queries:,} queries ({kinds})")
    for reason, count in result.rejected.most_common():
        say(f"  {count:,} rejected: {reason}")
    asked = result.queries + result.rejected.total()
    if asked < result.wanted:
        say(f"  {result.wanted - asked:,} of {result.wanted:,} are left to ask for; without --limit it goes on")
    if result.built:
        say(f"  in this run: {result.built:,} asked for, {result.pace.tokens:,} tokens in {result.pace.seconds:,.0f} s")


def _show(out: Path, count: int) -> None:
    from nearer.construct.queries import read_answers

    kept, rejected = read_answers(out)
    for record in kept[:count]:
        say(f"  {record['kind']}: {record['query']}   [{record['passage']}]")
    for reason, record in rejected[:count]:
        say(f"  rejected, {reason}: {record['kind']}: {record['answer']!r}   [{record['passage']}]")
