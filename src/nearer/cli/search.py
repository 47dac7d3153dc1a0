"""Commands on a saved index: search build, search add, search remove, search query, search info."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from nearer.cli import options
from nearer.cli.bundles import Loading, with_bundles
from nearer.cli.output import one_line, put, say, show_report, show_table
from nearer.errors import SettingError

if TYPE_CHECKING:
    from nearer.search import Document, Hit, Manifest, SearchIndex
    from nearer.text import Reading

app = typer.Typer(no_args_is_help=True, help="Find the sentences or documents that are nearest in meaning.")

QUERIES_AT_ONCE = 256
MAX_CHARACTERS = 1_000_000  # as `nearer.search.documents` has it, which costs an import


class KindName(StrEnum):
    auto = "auto"
    exact = "exact"
    ivf = "ivf"
    hnsw = "hnsw"


Index = Annotated[Path, typer.Argument(metavar="INDEX", help="A folder that `nearer search build` has made.")]
Text = Annotated[str, typer.Argument(metavar="FILE", help="Sentences: txt, csv, tsv, jsonl, parquet, hf:NAME; or -.")]


@dataclass(frozen=True)
class IndexLoading(Loading):
    """How the model of a new index is loaded."""

    max_length: Annotated[
        int | None,
        typer.Option(min=3, help="Cut texts at so many tokens. Default: by the text, as far as the model can read."),
    ] = None


@dataclass(frozen=True)
class DocumentReading:
    """How documents are read."""

    columns: Annotated[
        str | None,
        typer.Option(help="Columns of the text, joined in this order. Default: text, with the title before it if any."),
    ] = None
    id_column: Annotated[
        str | None, typer.Option("--id-column", metavar="KEY", help="Column of the documents' ids. Default: _id or id.")
    ] = None
    encoding: options.Encoding = "utf-8"
    max_characters: options.MaxCharacters = MAX_CHARACTERS
    allow_dropped: options.AllowDropped = False
    drop_duplicates: Annotated[
        bool, typer.Option("--drop-duplicates", help="Keep only one of equal sentences in FILE.")
    ] = False

    def read(self, file: str) -> Reading[Document]:
        from nearer.search import read_documents

        return read_documents(
            file,
            id_column=self.id_column,
            duplicates="drop" if self.drop_duplicates else "keep",
            **options.read_options(self.columns, self.encoding, self.max_characters, self.allow_dropped),
        )


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


INDEX_LOADING, DOCUMENT_READING, OPENING = IndexLoading(), DocumentReading(), Opening()


@app.command("build")
@with_bundles
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
    loading: IndexLoading = INDEX_LOADING,
    documents: DocumentReading = DOCUMENT_READING,
    passages: Annotated[
        int | None, typer.Option(min=8, metavar="TOKENS", help="Cut texts into passages of so many tokens.")
    ] = None,
    overlap: Annotated[
        int | None,
        typer.Option(min=0, metavar="TOKENS", help="Tokens that a passage repeats of the last. Default: an eighth."),
    ] = None,
    precision: options.Precision = options.PrecisionName.float32,
    force: Annotated[bool, typer.Option("--force", help="Replace the index in this folder, finished or not.")] = False,
) -> None:
    """Encode the sentences or documents of a file and save them as an index.

    Interrupted, the same command goes on where it was. BEIR's corpus.jsonl is indexed as it is: titles and texts.
    """
    from nearer.search import SearchIndex

    reading = documents.read(file)
    index = SearchIndex.build(
        model,
        reading,
        out,
        kind=kind.value,
        recall=recall,
        precision=precision.value,
        prompt=prompt,
        query_prompt=query_prompt,
        passages=passages,
        overlap=overlap,
        seed=seed,
        progress=True,
        overwrite=force,
        **loading.arguments(),
    )
    show_report(reading.report)
    if loading.max_length is None:
        length = index.manifest.model.options["max_length"]
        say(f"{length} tokens of each text are read (--max-length)")
    _say_what_it_is(out, index)


@app.command("add")
@with_bundles
def add(
    index: Index,
    file: Text,
    documents: DocumentReading = DOCUMENT_READING,
    opening: Opening = OPENING,
    force: Annotated[
        bool, typer.Option("--force", help="Discard an unfinished addition of another file, and start this one.")
    ] = False,
    again: Annotated[
        bool, typer.Option("--again", help="Add the file also if all of it is in the index already.")
    ] = False,
) -> None:
    """Add the sentences or documents of a file to an index; a document replaces one with the same id.

    Searches see them once all are added.
    """
    from nearer.search import SearchIndex

    opened = SearchIndex.open(index, **asdict(opening))
    reading = documents.read(file)
    opened.add(reading, progress=True, force=force, again=again)
    show_report(reading.report)
    _say_what_it_is(index, opened)


@app.command("remove")
def remove(
    index: Index,
    ids: Annotated[list[str] | None, typer.Option("--id", help="A document's id; may be given several times.")] = None,
    file: Annotated[str | None, typer.Option(help="A file with an id a line; or -.")] = None,
) -> None:
    """Remove documents from an index by their ids. An id that is not there is an error, and nothing is removed."""
    from nearer.search import SearchIndex
    from nearer.text import read_sentences

    if bool(ids) == (file is not None):
        raise SettingError("give either ids (--id) or a --file of them.")
    opened = SearchIndex.open(index)
    removed = opened.remove(list(read_sentences(file)) if file is not None else ids or [])
    say(f"{removed:,} {'document' if removed == 1 else 'documents'} removed")
    _say_what_it_is(index, opened)


@app.command("query")
@with_bundles
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
    all_passages: Annotated[
        bool, typer.Option("--all-passages", help="Of an index of passages: any number of them of one document.")
    ] = False,
    whole: Annotated[
        bool, typer.Option("--whole", help="Print whole texts instead of the part that fits the query best.")
    ] = False,
    columns: options.Columns = None,
    opening: Opening = OPENING,
) -> None:
    """Print what is nearest to a text: score, id or line, and text. --rerank orders it as a RankEncoder does."""
    from nearer.search import SearchIndex
    from nearer.text import read_sentences
    from nearer.text.batches import chunks

    if bool(texts) == (file is not None):
        raise SettingError("give either texts or --file of them.")
    opened = SearchIndex.open(index, **asdict(opening))
    if k > len(opened):
        say(f"-k {k}: the index has {len(opened):,} {_noun(opened.manifest)}; all of them are shown")
    reading = None if file is None else read_sentences(file, columns=options.column_names(columns))
    for queries in chunks(reading if reading is not None else texts or [], QUERIES_AT_ONCE):
        found = opened.search(
            queries, k, exact=exact, rerank=rerank, inference_weight=inference_weight, all_passages=all_passages
        )
        for text, hits in zip(queries, found, strict=True):
            if json_lines:
                put(json.dumps({"query": text, "hits": [asdict(hit) for hit in hits]}, ensure_ascii=False))
            else:
                _show_hits(text, hits, opened.manifest, whole=whole)
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

    opened = SearchIndex.open(index)
    manifest = opened.manifest
    if json_manifest:
        put(manifest.model_dump_json(indent=2))
        return
    size = sum(path.stat().st_size for path in index.iterdir() if path.is_file())
    for name, value in [
        (_noun(manifest), f"{len(opened):,}"),
        *([("passages", _passages_note(manifest, len(opened.rows)))] if manifest.passages else []),
        *([("removed", f"{manifest.removed.rows:,} rows, still on the disk")] if manifest.removed else []),
        ("vectors", f"{manifest.dimension} numbers each, float32"),
        ("kind", manifest.note()),
        ("model", f"{manifest.model.name} ({manifest.model.fingerprint})"),
        ("precision", manifest.model.precision),
        ("read", f"{manifest.model.options.get('max_length')} tokens of each text"),
        *(("text", f"{source.source}: {source.rows:,} sentences") for source in manifest.sources),
        ("on disk", f"{size / 2**20:,.1f} MiB"),
        ("made with", ", ".join(f"{library} {version}" for library, version in manifest.libraries.items())),
    ]:
        put(f"{name:<10} {value}")


def _noun(manifest: Manifest) -> str:
    return "documents" if manifest.id_bytes or manifest.passages else "sentences"


def _passages_note(manifest: Manifest, rows: int) -> str:
    size, overlap = manifest.passages or (0, 0)
    return f"{rows:,}, of {size} tokens, {overlap} of them repeated"


def _say_what_it_is(folder: Path, index: SearchIndex) -> None:
    manifest = index.manifest
    if replaced := manifest.sources[-1].replaced:
        say(f"{replaced:,} {'document was' if replaced == 1 else 'documents were'} replaced by others of the same id")
    cut = f" in {len(index.rows):,} passages" if manifest.passages else ""
    say(f"{folder}: {len(index):,} {_noun(manifest)}{cut}; {manifest.note()}")


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
    table.add_column("sentence" if _noun(manifest) == "sentences" else "text", overflow="fold")
    for hit in hits:
        where = [one_line(hit.id or "")] if manifest.id_bytes else []
        where.append(str(hit.line))
        where += [f"{hit.passage}/{hit.passages}"] if manifest.passages else []
        where += [hit.source] if several_sources else []
        table.add_row(f"{hit.score:.4f}", *where, one_line(hit.text) if whole else cut_snippet(hit.text, text))
    show_table(table)
