"""Commands on a saved index of sentences: search build, search add, search query, search info."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from nearer.cli import options
from nearer.cli.output import one_line, say, show_report, show_table
from nearer.errors import SettingError
from nearer.text.reading import MAX_CHARACTERS

if TYPE_CHECKING:
    from nearer.search import Hit, Manifest

app = typer.Typer(no_args_is_help=True, help="Find the sentences of a text that are nearest in meaning.")

QUERIES_AT_ONCE = 256


class KindName(StrEnum):
    auto = "auto"
    exact = "exact"
    ivf = "ivf"
    hnsw = "hnsw"


Index = Annotated[Path, typer.Argument(metavar="INDEX", help="A folder that `nearer search build` has made.")]
Text = Annotated[str, typer.Argument(metavar="FILE", help="Sentences: txt, csv, tsv, jsonl, parquet, hf:NAME; or -.")]
DropDuplicates = Annotated[bool, typer.Option("--drop-duplicates", help="Keep only one of equal sentences in FILE.")]
MovedModel = Annotated[
    str | None,
    typer.Option(
        "--model",
        metavar="MODEL",
        help="Where the model of the index is now. Default: where it was when the index was built.",
    ),
]


@app.command("build")
def build(
    model: options.Model,
    file: Text,
    out: Annotated[Path, typer.Option(help="Folder of the index.")],
    kind: Annotated[
        KindName,
        typer.Option(help="exact compares a query with all vectors; ivf and hnsw with a part of them. auto: by size."),
    ] = KindName.auto,
    recall: Annotated[
        float,
        typer.Option(
            callback=options.finite, min=0.01, max=1, help="ivf and hnsw: share of the ten nearest sentences to find."
        ),
    ] = 0.95,
    prompt: Annotated[str | None, typer.Option(help="Name of the model's prompt for sentences.")] = None,
    query_prompt: Annotated[str | None, typer.Option(help="Name of the model's prompt for queries.")] = None,
    seed: Annotated[
        int, typer.Option(min=0, max=options.LARGEST_FAISS_SEED, help="Seed of the clustering and of the samples.")
    ] = 0,
    pooling: options.Pooling = None,
    max_length: options.MaxLength = None,
    text_normalisation: options.Normalisation = None,
    pooler_as_head: options.PoolerAsHead = False,
    columns: options.Columns = None,
    encoding: options.Encoding = "utf-8",
    max_characters: options.MaxCharacters = MAX_CHARACTERS,
    drop_duplicates: DropDuplicates = False,
    precision: options.Precision = options.PrecisionName.float32,
    device: options.Device = None,
    trust_remote_code: options.RemoteCode = False,
    allow_pickle: options.AllowPickle = False,
    force: Annotated[bool, typer.Option("--force", help="Replace the index in this folder, finished or not.")] = False,
) -> None:
    """Encode the sentences of a file and save them as an index. If it was interrupted, the same command continues."""
    from nearer.search import SearchIndex
    from nearer.text import read_sentences

    duplicates = "drop" if drop_duplicates else "keep"
    reading = read_sentences(file, **options.read_options(columns, encoding, max_characters), duplicates=duplicates)
    index = SearchIndex.build(
        model,
        reading,
        out,
        kind=kind.value,
        recall=recall,
        precision=precision.value,
        prompt=prompt,
        query_prompt=query_prompt,
        seed=seed,
        device=device,
        progress=True,
        overwrite=force,
        pooling=pooling,
        max_length=max_length,
        text_normalisation=text_normalisation,
        pooler_as_head=pooler_as_head,
        trust_remote_code=trust_remote_code,
        allow_pickle=allow_pickle,
    )
    show_report(reading.report)
    _say_what_it_is(out, index.manifest)


@app.command("add")
def add(
    index: Index,
    file: Text,
    columns: options.Columns = None,
    encoding: options.Encoding = "utf-8",
    max_characters: options.MaxCharacters = MAX_CHARACTERS,
    drop_duplicates: DropDuplicates = False,
    model: MovedModel = None,
    device: options.Device = None,
    trust_remote_code: options.RemoteCode = False,
    allow_pickle: options.AllowPickle = False,
    force: Annotated[
        bool, typer.Option("--force", help="Discard an unfinished addition of another file, and start this one.")
    ] = False,
) -> None:
    """Add the sentences of a file to an index. Searches see the new sentences once all are added."""
    from nearer.search import SearchIndex
    from nearer.text import read_sentences

    opened = SearchIndex.open(
        index, model=model, device=device, trust_remote_code=trust_remote_code, allow_pickle=allow_pickle
    )
    duplicates = "drop" if drop_duplicates else "keep"
    reading = read_sentences(file, **options.read_options(columns, encoding, max_characters), duplicates=duplicates)
    opened.add(reading, progress=True, force=force)
    show_report(reading.report)
    _say_what_it_is(index, opened.manifest)


@app.command("query")
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
        int,
        typer.Option(
            min=0,
            help="Take so many, and order them by how alike they and the query rank a corpus (RankEncoder).",
        ),
    ] = 0,
    inference_weight: Annotated[
        float | None,
        typer.Option(
            callback=options.finite,
            min=0,
            max=1,
            help="λ_inf of --rerank: 1 uses ranks alone, a lower value mixes in cosines.",
        ),
    ] = None,
    columns: options.Columns = None,
    model: MovedModel = None,
    device: options.Device = None,
    trust_remote_code: options.RemoteCode = False,
    allow_pickle: options.AllowPickle = False,
) -> None:
    """Print the sentences nearest to a text: score, line and sentence. --rerank orders them as a RankEncoder does."""
    from nearer.search import SearchIndex
    from nearer.text import read_sentences
    from nearer.text.chunks import chunks

    if bool(texts) == (file is not None):
        raise SettingError("give either texts or --file of them.")
    opened = SearchIndex.open(
        index, model=model, device=device, trust_remote_code=trust_remote_code, allow_pickle=allow_pickle
    )
    if k > len(opened):
        say(f"-k {k}: the index has {len(opened):,} sentences; all of them are shown")
    reading = None if file is None else read_sentences(file, columns=options.column_names(columns))
    for queries in chunks(reading if reading is not None else texts or [], QUERIES_AT_ONCE):
        found = opened.search(queries, k, exact=exact, rerank=rerank, inference_weight=inference_weight)
        for text, hits in zip(queries, found, strict=True):
            if json_lines:
                print(json.dumps({"query": text, "hits": [asdict(hit) for hit in hits]}, ensure_ascii=False))
            else:
                _show_hits(text, hits, several_sources=len(opened.manifest.sources) > 1)
    if reading is not None:
        show_report(reading.report)
        reading.report.check_kept(told=True)


@app.command("info")
def info(
    index: Index,
    json_manifest: Annotated[bool, typer.Option("--json", help="Print the manifest as JSON.")] = False,
) -> None:
    """Say what an index holds, which model made it and how queries are answered."""
    from nearer.search import SearchIndex

    manifest = SearchIndex.open(index).manifest
    if json_manifest:
        print(manifest.model_dump_json(indent=2))
        return
    size = sum(path.stat().st_size for path in index.iterdir() if path.is_file())
    for name, value in [
        ("sentences", f"{manifest.count:,}"),
        ("vectors", f"{manifest.dimension} numbers each, float32"),
        ("kind", manifest.note()),
        ("model", f"{manifest.model.name} ({manifest.model.fingerprint})"),
        ("precision", manifest.model.precision),
        *(("text", f"{source.source}: {source.rows:,} sentences") for source in manifest.sources),
        ("on disk", f"{size / 2**20:,.1f} MiB"),
        ("made with", ", ".join(f"{library} {version}" for library, version in manifest.libraries.items())),
    ]:
        print(f"{name:<10} {value}")


def _say_what_it_is(folder: Path, manifest: Manifest) -> None:
    say(f"{folder}: {manifest.count:,} sentences; {manifest.note()}")


def _show_hits(text: str, hits: Iterable[Hit], *, several_sources: bool) -> None:
    from rich.table import Table

    table = Table(title=one_line(text), title_justify="left", box=None, pad_edge=False)
    table.add_column("score", justify="right")
    table.add_column("line", justify="right")
    if several_sources:
        table.add_column("file", overflow="fold")
    table.add_column("sentence", overflow="fold")
    for hit in hits:
        where = [str(hit.line), hit.source] if several_sources else [str(hit.line)]
        table.add_row(f"{hit.score:.4f}", *where, one_line(hit.text))
    show_table(table)
