"""Commands that make a saved index and change it: search build, search add, search remove."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from nearer.cli import options
from nearer.cli.bundles import Loading, with_bundles
from nearer.cli.output import say, show_report
from nearer.cli.search_query import OPENING, Index, Opening, info, noun, query
from nearer.errors import SettingError

if TYPE_CHECKING:
    from nearer.search import Document, SearchIndex
    from nearer.text import Reading

app = typer.Typer(no_args_is_help=True, help="Find the sentences or documents that are nearest in meaning.")

MAX_CHARACTERS = 1_000_000  # as `nearer.search.documents` has it, which costs an import


class KindName(StrEnum):
    auto = "auto"
    exact = "exact"
    ivf = "ivf"
    hnsw = "hnsw"


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


INDEX_LOADING, DOCUMENT_READING = IndexLoading(), DocumentReading()


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
    lexical_weight: options.LexicalWeight = None,
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
        lexical_weight=lexical_weight,
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


app.command("query")(with_bundles(query))
app.command("info")(info)


def _say_what_it_is(folder: Path, index: SearchIndex) -> None:
    manifest = index.manifest
    if replaced := manifest.sources[-1].replaced:
        say(f"{replaced:,} {'document was' if replaced == 1 else 'documents were'} replaced by others of the same id")
    cut = f" in {len(index.rows):,} passages" if manifest.passages else ""
    words = "" if manifest.setup.is_plain else f"; {manifest.setup.describe()}"
    say(f"{folder}: {len(index):,} {noun(manifest)}{cut}; {manifest.note()}{words}")
