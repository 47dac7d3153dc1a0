"""Commands that mine training data out of documents: mine pairs, queries, negatives, lists."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from nearer.cli import options
from nearer.cli.adapt import Txt, split_columns
from nearer.cli.output import say
from nearer.errors import NearerError, SettingError

if TYPE_CHECKING:
    from nearer.adaptation.mining import Mined
    from nearer.adaptation.models import Models
    from nearer.adaptation.passages import Passage

app = typer.Typer(no_args_is_help=True, help="Mine training data out of documents: files that train reads.")

Documents = Annotated[
    list[str],
    typer.Argument(metavar="DOCUMENTS…", help="Folders and files: txt, md, html, pdf, csv, jsonl, parquet."),
]
Columns = Annotated[
    str | None,
    typer.Option(help="Columns of tables, such as text=body,title=headline. Default: by their usual names."),
]
TxtRule = Annotated[Txt, typer.Option(help="Whether a plain text file is one document, or has one on each line.")]
Limit = Annotated[int | None, typer.Option(min=1, help="So many at most, drawn at random.")]
Seed = Annotated[int, typer.Option(min=0, max=options.LARGEST_SEED, help="Decides which ones.")]
Base = Annotated[str, typer.Option(help="The encoder that finds passages: a folder, a hub name, or wiki-mini.")]


@app.command("pairs")
def pairs(
    documents: Documents,
    out: Annotated[Path, typer.Option(help="The new file, as JSON lines.")],
    limit: Limit = None,
    columns: Columns = None,
    encoding: options.Encoding = "utf-8",
    txt: TxtRule = Txt.auto,
    seed: Seed = 0,
) -> None:
    """Pair titles, headings, docstrings and openings with what they stand above; train on it with data=pairs."""
    from nearer.adaptation.mining import mine_pairs

    with _documents_named():
        found = mine_pairs(_read(documents, columns, encoding, txt), out, limit=limit, seed=seed)
    say(f"{out}: {found.written:,} pairs; nearer train simcse-pairs-wiki-mini --corpus {out}")


@app.command("queries")
def queries(
    documents: Documents,
    out: Annotated[Path, typer.Option(help="The new file, as JSON lines.")],
    kinds: Annotated[
        str, typer.Option(help="Which kinds of text.")
    ] = "title,heading,docstring,question,opening,sentence",
    limit: Limit = None,
    columns: Columns = None,
    encoding: options.Encoding = "utf-8",
    txt: TxtRule = Txt.auto,
    seed: Seed = 0,
) -> None:
    """Collect query-like text, with its kind, its passage and how many words they share."""
    from nearer.adaptation.mining import mine_queries

    with _documents_named():
        passages = _read(documents, columns, encoding, txt)
        found = mine_queries(passages, out, kinds=options.split_names(kinds), limit=limit, seed=seed)
    say(f"{out}: {found.written:,} query-like texts")


@app.command("negatives")
def negatives(
    documents: Documents,
    out: Annotated[Path, typer.Option(help="The new file of triplets, as JSON lines.")],
    model: Base = "wiki-mini",
    pooling: options.Pooling = None,
    judge: Annotated[
        str | None,
        typer.Option(help="A cross-encoder that says which candidates may be answers (else the model)."),
    ] = None,
    each: Annotated[int, typer.Option("--negatives", min=1, help="Triplets of each pair.")] = 1,
    best: Annotated[int, typer.Option(min=1, help="Candidates that the model and BM25 name each.")] = 30,
    margin: Annotated[
        float,
        typer.Option(
            callback=options.finite,
            help="A candidate must score so much below the positive, in the judge's own scores; else it may be one.",
        ),
    ] = 0.05,
    limit: Limit = None,
    columns: Columns = None,
    encoding: options.Encoding = "utf-8",
    txt: TxtRule = Txt.auto,
    seed: Seed = 0,
    device: options.Device = None,
) -> None:
    """Add hard negatives to pairs: passages that are found for the anchor and are no answer; data=triplets."""
    from nearer.adaptation.mining import mine_negatives

    with _documents_named():
        passages = _read(documents, columns, encoding, txt)
        models = _load(model, [], judge, device, pooling)
        found = mine_negatives(
            passages, out, models, negatives=each, best=best, margin=margin, limit=limit, seed=seed, progress=True
        )
    _tell(found, out, "triplets", "pairs have too few passages that are no answer")


@app.command("lists")
def lists(
    documents: Documents,
    out: Annotated[Path, typer.Option(help="The new folder, which nearer train lists reads.")],
    model: Base = "wiki-mini",
    pooling: options.Pooling = None,
    teacher: Annotated[list[str] | None, typer.Option(help="An encoder that knows more; may be repeated.")] = None,
    judge: Annotated[str | None, typer.Option(help="A cross-encoder, such as ms-marco-MiniLM-L-12-v2.")] = None,
    queries: Annotated[str | None, typer.Option(help="A log of real queries, one a line; they come first.")] = None,
    weights: Annotated[
        str | None,
        typer.Option(
            help="How much judges count, such as bm25=0.3,judge=1,base=0; a teacher by its name. Default: teachers and "
            "judge 1, without them base and bm25."
        ),
    ] = None,
    best: Annotated[int, typer.Option(min=2, help="Candidates that each encoder and BM25 name.")] = 20,
    limit: Limit = None,
    columns: Columns = None,
    encoding: options.Encoding = "utf-8",
    txt: TxtRule = Txt.auto,
    seed: Seed = 0,
    device: options.Device = None,
) -> None:
    """Let judges score passages for query-like text, to train on with nearer train lists."""
    from nearer.adaptation.mining import mine_lists
    from nearer.text import read_sentences

    counted = _weights(weights)
    with _documents_named():
        log = [] if queries is None else list(dict.fromkeys(read_sentences(queries)))
        passages = _read(documents, columns, encoding, txt)
        models = _load(model, teacher or [], judge, device, pooling)
        found = mine_lists(
            passages, out, models, log=log, weights=counted, best=best, limit=limit, seed=seed, progress=True
        )
    _tell(found, out, "lists", "queries found too few passages")


@contextmanager
def _documents_named() -> Iterator[None]:
    """Here documents are no option."""
    try:
        yield
    except NearerError as error:
        if error.argument == "documents":
            error.argument = None
        raise


def _read(documents: list[str], columns: str | None, encoding: str, txt: Txt) -> list[Passage]:
    from nearer.adaptation.documents import read_documents
    from nearer.adaptation.passages import split_passages

    named = split_columns(columns)
    found = read_documents(
        documents, columns=named, encoding=encoding, txt=txt.value, near_duplicates=False, progress=True
    )
    say(str(found.account))
    return [passage for document in found.documents for passage in split_passages(document)]


def _load(model: str, teachers: list[str], judge: str | None, device: str | None, pooling: str | None) -> Models:
    from nearer.adaptation.models import load_models

    return load_models(model, teachers, judge, device, pooling)


def _weights(text: str | None) -> dict[str, float] | None:
    if text is None:
        return None
    names = {"bm25": "lexical", "judge": "reranker"}
    found = {}
    for part in options.split_names(text):
        name, equals, number = part.rpartition("=")
        try:
            found[names.get(name.lower(), name)] = float(number)
        except ValueError:
            equals = ""
        if not equals or not name:
            raise SettingError(
                f"weights: {part!r} is not of the form NAME=NUMBER, such as bm25=0.3.", argument="weights"
            )
    return found


def _tell(found: Mined, out: Path, what: str, why: str) -> None:
    say(f"{out}: {found.written:,} {what}")
    if found.left_out:
        say(f"  {found.left_out:,} left out: {why}")
