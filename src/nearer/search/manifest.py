"""What an index is, in one JSON file. It is replaced as a whole, and what it does not speak of is not there:

    manifest.json   this
    vectors.bin     unit vectors, float32, a row for each sentence
    texts.bin       the sentences, UTF-8, one behind the other
    ends.bin        where each of them ends there, int64
    lines.bin       the line of its source that each comes from, int64
    documents.bin   the document that each is (a passage of), int64; ids.bin, id_ends.bin: the documents' ids
    removed-3.bin   rows that were removed or replaced, int64, where there are any
    lexical-2/      BM25 over the rows that were not removed, see `nearer.search.lexical`, where words count
    ivf-2.faiss     (or hnsw-2.faiss) FAISS' structure, unless every query looks at all vectors
    pieces.bin      checksums of what is appended to, piece by piece, see `nearer.storage.pieces`
    pending.json    only while something is added: how far that is

The .bin files are only ever appended to. Rows beyond `count` belong to an addition that is not finished. The manifest
has the checksums of removed-3.bin and ivf-2.faiss, and its own.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from nearer.errors import DamagedError, InputError, first_line
from nearer.search.row_store import Extent
from nearer.search.setup import SearchSetup
from nearer.search.text_store import ANEW
from nearer.storage.sealed import damaged, read_sealed_json

MANIFEST = "manifest.json"
FORMAT = 4
# of format 1, each row is a document without an id; formats 1 and 2 have no checksums, 3 knows no words
READABLE = (1, 2, 3, FORMAT)
CHECKSUMMED = 3
SOURCES_NAMED = 3

Kind = Literal["exact", "ivf", "hnsw"]
AskedKind = Literal["auto", "exact", "ivf", "hnsw"]


class Facts(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


# A row and a number of a vector are counted in 64 bits, both together; what FAISS counts has 31
Count = Annotated[int, Field(ge=0, le=2**40)]
Bytes = Annotated[int, Field(ge=0, le=2**60)]
FaissCount = Annotated[int, Field(ge=1, le=2**31 - 1)]


class LoadingOptions(Facts):
    """How an index' model is loaded. Nothing here lets its code run or its pickles be read."""

    pooling: str | None = None
    max_length: int | None = Field(default=None, ge=1, le=2**31 - 1)
    text_normalisation: str | None = None
    template: str | None = None
    pooler_as_head: bool = False
    revision: str | None = None
    route: str | None = None


class ModelFacts(Facts):
    """The encoder that made the vectors. `options`: how it is loaded; `fingerprint`: what it must then be."""

    name: str
    options: dict[str, Any]
    fingerprint: str
    precision: str
    prompt: str | None = None
    query_prompt: str | None = None

    @field_validator("options")
    @classmethod
    def _known_options(cls, options: dict[str, Any]) -> dict[str, Any]:
        LoadingOptions.model_validate(options)
        return options


class SourceFacts(Facts):
    """A text of which rows come. fingerprint: of the text, or of the documents that came by standard input.

    replaced: documents that were there before, under ids that documents of this text have too.
    """

    source: str
    first_row: Count
    rows: Count = Field(ge=1)
    fingerprint: str | None
    reading: dict[str, Any]
    replaced: int = Field(default=0, ge=0)


class StructureFacts(Facts):
    """An approximate index: its file, how much of it a query looks at, and how much is found by that.

    groups: the lists of an IVF, the links of an HNSW. effort: lists probed, or HNSW's efSearch. sample: on so many
    sentences of the index `recall` was measured, which are not those by which `effort` was chosen. sum: the file's
    checksum (XXH3, 128 bit).
    """

    file: str = Field(pattern=r"^(ivf|hnsw)-\d+\.faiss$")
    size: Bytes = Field(ge=1)
    sum: str | None = None
    groups: FaissCount
    effort: FaissCount
    trained_rows: Count = Field(ge=1)
    recall: float = Field(ge=0, le=1)
    sample: int = Field(ge=0)


class RemovedFacts(Facts):
    """Rows that are there no more, though the files still hold them. sum: the file's checksum (XXH3, 128 bit)."""

    file: str = Field(pattern=r"^removed-\d+\.bin$")
    rows: Count = Field(ge=1)
    sum: str | None = None


class LexicalPart(Facts):
    """BM25 over `rows` rows: those that were not removed, in their order."""

    folder: str = Field(pattern=r"^lexical-\d+$")
    rows: Count


class Manifest(Facts):
    """id_bytes: of all ids. documents: all that were ever added. passages: tokens of a passage, and how many of them
    the next one repeats; None where a text is not cut. setup: how queries are answered unless they say otherwise."""

    format: int
    count: Count = Field(ge=1)
    dimension: int = Field(ge=1, le=2**20)
    text_bytes: Bytes
    asked_kind: AskedKind
    kind: Kind
    asked_recall: float = Field(gt=0, le=1)
    seed: int = Field(ge=0)
    generation: int = Field(ge=1)
    model: ModelFacts
    sources: tuple[SourceFacts, ...] = Field(min_length=1)
    structure: StructureFacts | None
    libraries: dict[str, str]
    id_bytes: Bytes = 0
    documents: Count = 0
    passages: tuple[int, int] | None = None
    removed: RemovedFacts | None = None
    setup: SearchSetup = SearchSetup()
    lexical: LexicalPart | None = None

    @property
    def extent(self) -> Extent:
        return Extent(self.count, self.text_bytes, self.id_bytes, self.documents)

    @property
    def way_back(self) -> str:
        """What to do where the index is damaged."""
        names = list(dict.fromkeys(source.source for source in self.sources))
        more = f" and {len(names) - SOURCES_NAMED} more" if len(names) > SOURCES_NAMED else ""
        return f"{ANEW} from {', '.join(names[:SOURCES_NAMED])}{more}"

    @property
    def live_rows(self) -> int:
        """Rows that were not removed or replaced."""
        return self.count - (self.removed.rows if self.removed else 0)

    def note(self) -> str:
        """How queries are answered, for people."""
        if self.structure is None:
            return "exact: every query is compared with all vectors"
        made = self.structure
        how = (
            f"IVF{made.groups}, {made.effort} {'probe' if made.effort == 1 else 'probes'}"
            if self.kind == "ivf"
            else f"HNSW{made.groups}, efSearch {made.effort}"
        )
        short = f"; below the {self.asked_recall:g} asked for" if made.recall < self.asked_recall else ""
        return f"{how}: recall@10 {made.recall:.3f} on {made.sample:,} sentences{short}"


def read_manifest(folder: Path) -> Manifest:
    """The manifest of a finished index, with an error for whatever else lies there."""
    path = folder / MANIFEST
    try:
        found = read_sealed_json(path, ANEW)
    except DamagedError:
        raise
    except (FileNotFoundError, NotADirectoryError):
        raise _no_index(folder) from None
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror or error}).") from None
    except ValueError as error:
        raise _damaged(path, first_line(error)) from None
    if not isinstance(found, dict) or "format" not in found:
        raise _damaged(path, "does not say its format")
    if found["format"] not in READABLE:
        raise InputError(
            f"{path}: has format {found['format']!r}, this version of nearer reads {FORMAT}; build the index anew."
        )
    try:
        manifest = Manifest.model_validate(found)
    except ValidationError as errors:
        first = errors.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise _damaged(path, f"{where or 'it'}: {first['msg']}") from None
    if (manifest.kind == "exact") != (manifest.structure is None):
        raise _damaged(path, f"kind {manifest.kind} and its structure do not fit")
    rows = 0
    for source in manifest.sources:
        if source.first_row != rows:
            raise _damaged(path, f"the rows of {source.source} do not begin at {rows}")
        rows += source.rows
    if manifest.format == 1:
        manifest = manifest.model_copy(update={"documents": manifest.count})
    if manifest.lexical is not None and manifest.lexical.rows != manifest.live_rows:
        raise _damaged(path, f"BM25 is over {manifest.lexical.rows:,} rows, {manifest.live_rows:,} are there")
    if rows != manifest.count:
        raise _damaged(path, f"its sources have {rows:,} rows, its count is {manifest.count:,}")
    return manifest


def _no_index(folder: Path) -> InputError:
    if partial_folder(folder).is_dir():
        return InputError(
            f"{folder}: its build is not finished (see {partial_folder(folder)}); the same `nearer search build` goes "
            "on where it was."
        )
    if not folder.exists():
        return InputError(f"{folder}: no such index; `nearer search build` makes one.")
    return InputError(f"{folder}: is not an index (no {MANIFEST} in it); `nearer search build` makes one.")


def _damaged(path: Path, reason: str) -> DamagedError:
    return damaged(path, reason, ANEW)


def check_output(out: Path, *, overwrite: bool) -> None:
    """That an index can go there: worth knowing before a model is loaded."""
    if not out.exists():
        return
    if not out.is_dir():
        raise InputError(f"{out}: is a file; an index is a folder, name another.")
    if not any(out.iterdir()):
        return
    if not (out / MANIFEST).exists():
        raise InputError(f"{out}: holds other files; name a new folder.")
    if not overwrite:
        raise InputError(
            f"{out}: is there already; add to it (nearer search add), name another folder, or ask for overwriting.",
            argument="overwrite",
        )


def partial_folder(folder: Path) -> Path:
    """Where a build stands until it is whole."""
    path = folder.resolve()  # "." has no name beside which anything could stand
    return path.with_name(path.name + ".partial")
