"""Commands that ask a saved index: search query, search info."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from nearer.cli import options
from nearer.cli.output import one_line, put, say, show_report, show_table
from nearer.errors import SettingError

if TYPE_CHECKING:
    from nearer.search import Hit, Manifest

QUERIES_AT_ONCE = 256

Index = Annotated[Path, typer.Argument(metavar="INDEX", help="A folder that `nearer search build` has made.")]


@dataclass(frozen=True)
class Opening:
    """How an index is opened, with the model that made it."""

    model: Annotated[
        str | None,
        typer.Option(
            "--model",
            metavar="MODEL",
            help="Where the model of the index is now. Default: where it was when the index was built.",
        ),
    ] = None
    device: options.Device = None
    trust_remote_code: options.RemoteCode = False
    allow_pickle: options.AllowPickle = False


OPENING = Opening()


def query(
    index: Index,
    texts: Annotated[list[str] | None, typer.Argument(metavar="TEXT…", help="What to look for.")] = None,
    k: Annotated[int, typer.Option("-k", "--top", min=1, help="How many results to show for each query.")] = 10,
    file: Annotated[str | None, typer.Option(help="A file of queries (txt, csv, tsv, jsonl, parquet); or -.")] = None,
    json_lines: Annotated[bool, typer.Option("--json", help="Print a line of JSON for each query.")] = False,
    exact: Annotated[
        bool, typer.Option("--exact", help="Compare with all vectors, whatever kind the index has.")
    ] = False,
    rerank: Annotated[
        str | None,
        typer.Option(
            metavar="MODEL|N",
            help="A cross-encoder that scores the best candidates, or 'none'. A number N: take so many, and order them "
            "by how alike they and the query rank a corpus (RankEncoder).",
        ),
    ] = None,
    rerank_weight: Annotated[
        float | None,
        typer.Option(
            callback=options.finite,
            min=0.0001,
            max=100,
            help="How much the cross-encoder counts beside the vectors' 1.",
        ),
    ] = None,
    lexical_weight: options.LexicalWeight = None,
    candidates: Annotated[
        int | None,
        typer.Option(
            min=1, max=10_000, help="How many are taken from vectors and from words, and read by the cross-encoder."
        ),
    ] = None,
    inference_weight: Annotated[
        float | None,
        typer.Option(
            callback=options.finite,
            min=0,
            max=1,
            help="λ_inf of --rerank N: 1 uses ranks alone, a lower value mixes in cosines.",
        ),
    ] = None,
    all_passages: Annotated[
        bool, typer.Option("--all-passages", help="Of an index of passages: any number of them of one document.")
    ] = False,
    whole: Annotated[
        bool, typer.Option("--whole", help="Print whole texts instead of the part that fits the query best.")
    ] = False,
    columns: options.Columns = None,
    opening: Opening = OPENING,
) -> None:
    """Print what is nearest to a text: score, id or line, and text. BM25 and a cross-encoder count as asked for."""
    from nearer.search import SearchIndex
    from nearer.text import read_sentences
    from nearer.text.batches import chunks

    if bool(texts) == (file is not None):
        raise SettingError("give either texts or --file of them.")
    number, reranker = _read_rerank(rerank)
    opened = SearchIndex.open(index, **asdict(opening))
    if k > len(opened):
        say(f"-k {k}: the index has {len(opened):,} {noun(opened.manifest)}; all of them are shown")
    reading = None if file is None else read_sentences(file, columns=options.column_names(columns))
    for queries in chunks(reading if reading is not None else texts or [], QUERIES_AT_ONCE):
        found = opened.search(
            queries,
            k,
            exact=exact,
            rerank=number,
            inference_weight=inference_weight,
            all_passages=all_passages,
            lexical_weight=lexical_weight,
            reranker=reranker,
            rerank_weight=rerank_weight,
            candidates=candidates,
        )
        for text, hits in zip(queries, found, strict=True):
            if json_lines:
                put(json.dumps({"query": text, "hits": [asdict(hit) for hit in hits]}, ensure_ascii=False))
            else:
                _show_hits(text, hits, opened.manifest, whole=whole)
    if reading is not None:
        show_report(reading.report)
        reading.report.check_kept(told=True)


def info(
    index: Index,
    json_manifest: Annotated[bool, typer.Option("--json", help="Print the manifest as JSON.")] = False,
) -> None:
    """Say what an index holds, which model made it and how queries are answered."""
    from nearer.search import SearchIndex

    opened = SearchIndex.open(index)
    manifest = opened.manifest
    if json_manifest:
        put(manifest.model_dump_json(indent=2))
        return
    size = sum(path.stat().st_size for path in index.rglob("*") if path.is_file())
    for name, value in [
        (noun(manifest), f"{len(opened):,}"),
        *([("passages", _passages_note(manifest, len(opened.rows)))] if manifest.passages else []),
        *([("removed", f"{manifest.removed.rows:,} rows, still on the disk")] if manifest.removed else []),
        ("vectors", f"{manifest.dimension} numbers each, float32"),
        ("kind", manifest.note()),
        *([("answers", manifest.setup.describe())] if not manifest.setup.is_plain else []),
        ("model", f"{manifest.model.name} ({manifest.model.fingerprint})"),
        ("precision", manifest.model.precision),
        ("read", f"{manifest.model.options.get('max_length')} tokens of each text"),
        *(("text", f"{source.source}: {source.rows:,} sentences") for source in manifest.sources),
        ("on disk", f"{size / 2**20:,.1f} MiB"),
        ("made with", ", ".join(f"{library} {version}" for library, version in manifest.libraries.items())),
    ]:
        put(f"{name:<10} {value}")


def _read_rerank(given: str | None) -> tuple[int, str | bool | None]:
    """How many a RankEncoder reorders, and which cross-encoder reranks: False for none, None as the index says."""
    if given is None:
        return 0, None
    if given.isdecimal():
        return int(given), False
    return 0, False if given == "none" else given


def noun(manifest: Manifest) -> str:
    return "documents" if manifest.id_bytes or manifest.passages else "sentences"


def _passages_note(manifest: Manifest, rows: int) -> str:
    size, overlap = manifest.passages or (0, 0)
    return f"{rows:,}, of {size} tokens, {overlap} of them repeated"


def _show_hits(text: str, hits: Iterable[Hit], manifest: Manifest, *, whole: bool) -> None:
    from rich.table import Table

    from nearer.search.snapshot import cut_snippet

    several_sources = len(manifest.sources) > 1

    table = Table(title=one_line(text), title_justify="left", box=None, pad_edge=False)
    table.add_column("score", justify="right")
    if manifest.id_bytes:
        table.add_column("id", overflow="fold")
    table.add_column("line", justify="right")
    if manifest.passages:
        table.add_column("passage", justify="right")
    if several_sources:
        table.add_column("file", overflow="fold")
    table.add_column("sentence" if noun(manifest) == "sentences" else "text", overflow="fold")
    for hit in hits:
        where = [one_line(hit.id or "")] if manifest.id_bytes else []
        where.append(str(hit.line))
        where += [f"{hit.passage}/{hit.passages}"] if manifest.passages else []
        where += [hit.source] if several_sources else []
        table.add_row(f"{hit.score:.4f}", *where, one_line(hit.text) if whole else cut_snippet(hit.text, text))
    show_table(table)
