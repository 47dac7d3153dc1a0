"""Building an index, and adding to one. Either ends with all of it done, or with what was there before.

A build stands in `INDEX.partial` until it is whole. An addition is written behind the rows that are there, where nobody
looks before the manifest says so. Both note after each window how far they are, and go on there when asked again.
"""

from __future__ import annotations

import copy
import hashlib
import shutil
from collections import deque
from collections.abc import Iterator
from contextlib import ExitStack, closing
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from nearer.encoder import Encoder
from nearer.encoder.encoding import WINDOW_ON_GPU, BulkEncoding
from nearer.encoder.network import at_inference
from nearer.encoder.precision import check_precision
from nearer.errors import InputError
from nearer.search.build_state import (
    LOCK,
    PENDING,
    Pending,
    check_not_repeated,
    explain_interruption,
    forget_pending,
    resume_or_begin,
)
from nearer.search.documents import Passages, cut_into_passages, iter_documents
from nearer.search.manifest import (
    CHECKSUMMED,
    FORMAT,
    MANIFEST,
    Kind,
    Manifest,
    ModelFacts,
    SourceFacts,
    StructureFacts,
    check_output,
    partial_folder,
)
from nearer.search.nearest_neighbours import Structure, Vectors, load_faiss
from nearer.search.removal import find_replaced_rows, forget_older, open_removed, write_removed
from nearer.search.row_store import Extent, NewRows, RowWriter, StoredRows, add_missing_files, add_missing_pieces
from nearer.search.setup import SearchSetup
from nearer.search.text_store import ANEW
from nearer.search.tuning import Wanted, choose_effort, choose_groups, choose_kind, trained_on_too_few
from nearer.search.words_part import forget_older_words, write_words
from nearer.storage.sealed import write_sealed_json
from nearer.storage.whole import make_folder, put_in_place, written_by_us_alone
from nearer.terminal import progress_bar
from nearer.text.batches import chunks
from nearer.text.reading import Reading
from nearer.versions import library_versions

# Sentences between two notes of how far it is: an interruption costs two such windows
WINDOW_ON_CPU = 2048


def build_index(
    encoder: Encoder,
    facts: ModelFacts,
    reading: Reading[Any],
    fingerprint: str | None,
    out: Path,
    wanted: Wanted,
    *,
    passages: Passages | None = None,
    setup: SearchSetup | None = None,
    progress: bool = False,
    overwrite: bool = False,
) -> None:
    """fingerprint: of the text, see `source_fingerprint`. passages: how texts are cut, None for not at all. setup: how
    queries will be answered; BM25 is made if it counts."""
    folder = partial_folder(out)
    try:
        make_folder(folder)
        with ExitStack() as held, explain_interruption(folder):
            held.enter_context(written_by_us_alone(folder / LOCK, out))
            try:
                if (out / MANIFEST).exists():  # who adds to what is replaced would write into what replaces it
                    held.enter_context(written_by_us_alone(out / LOCK, out))
                check_output(out, overwrite=overwrite)  # another may have built it while the model was loaded
                new = Pending.new(reading.source, fingerprint, facts, Extent(), 1, passages)
                pending = resume_or_begin(folder, new, encoder.dimension, fresh=overwrite)
                if not pending.rows:
                    (folder / MANIFEST).unlink(missing_ok=True)  # of an index that was replaced, by who was killed then
                added = _append_sentences(folder, encoder, facts, reading, pending, progress, ANEW)
            except BaseException:
                if not (folder / PENDING).exists():  # nothing to go on with
                    shutil.rmtree(folder, ignore_errors=True)
                raise
            _complete(folder, encoder.dimension, facts, reading, pending, added, wanted, None, setup, progress)
            if out.is_dir() and not any(out.iterdir()):
                out.rmdir()
            put_in_place(folder, out)
            (out / PENDING).unlink(missing_ok=True)
            shutil.rmtree(folder, ignore_errors=True)  # what was replaced
    except OSError as error:
        raise InputError(f"{out}: the index cannot be written ({error.strerror or error}).") from None


def add_to_index(
    encoder: Encoder,
    folder: Path,
    manifest: Manifest,
    reading: Reading[Any],
    fingerprint: str | None,
    *,
    progress: bool,
    fresh: bool,
    again: bool,
) -> None:
    """fresh: what is left of another addition that was interrupted may go. again: what is in there may come again."""
    base, back = manifest.extent, manifest.way_back
    wanted = Wanted(manifest.asked_kind, manifest.asked_recall, manifest.seed)
    try:
        with explain_interruption(folder):
            new = Pending.new(
                reading.source, fingerprint, manifest.model, base, manifest.generation + 1, manifest.passages
            )
            pending = resume_or_begin(folder, new, encoder.dimension, fresh=fresh)
            if manifest.format < CHECKSUMMED and pending.rows == base.rows:
                if manifest.format == 1:
                    add_missing_files(folder, base.rows)
                add_missing_pieces(folder, base, manifest.dimension, back)
            added = _append_sentences(folder, encoder, manifest.model, reading, pending, progress, back)
            if fingerprint is None and not again:  # what came by standard input is known now
                try:
                    check_not_repeated(folder, manifest, reading.source, added.fingerprint)
                except InputError:
                    forget_pending(folder)
                    raise
            _complete(
                folder,
                encoder.dimension,
                manifest.model,
                reading,
                pending,
                added,
                wanted,
                manifest,
                manifest.setup,
                progress,
            )
            (folder / PENDING).unlink(missing_ok=True)
    except OSError as error:
        raise InputError(f"{folder}: the index cannot be written ({error.strerror or error}).") from None


class _Added(NamedTuple):
    extent: Extent
    fingerprint: str


def _append_sentences(
    folder: Path,
    encoder: Encoder,
    facts: ModelFacts,
    reading: Reading[Any],
    pending: Pending,
    progress: bool,
    back: str,
) -> _Added:
    check_precision(facts.precision, encoder.device)
    bulk = BulkEncoding(
        encoder, normalize=True, precision=facts.precision, prompt=encoder.settings.prompt(facts.prompt)
    )
    window = WINDOW_ON_GPU if encoder.device.type == "cuda" else WINDOW_ON_CPU
    passages = None if pending.passages is None else Passages(*pending.passages)
    tokenizer = copy.deepcopy(encoder.tokenizer)  # the encoder's is in use in another thread
    under_way: deque[list[_Row]] = deque()
    read = hashlib.blake2b(digest_size=16)

    def windows() -> Iterator[list[str]]:
        records = iter_documents(reading)
        done = pending.documents - pending.base_documents
        if sum(1 for _ in islice(records, done)) < done:
            raise _changed(folder, reading)
        for located in chunks(enumerate(records, pending.documents), window):
            rows = [
                _Row(line, number, document.id or "", text)
                for number, (line, document) in located
                for text in (
                    [document.text] if passages is None else cut_into_passages(tokenizer, document.text, passages)
                )
            ]
            for _, (_, document) in located:
                read.update(repr(document).encode())
            under_way.append(rows)
            yield [row.text for row in rows]

    with (
        RowWriter(folder, encoder.dimension, pending.extent, back) as writer,
        progress_bar("encoding", None, "sentences", shown=progress) as advance,
        at_inference(encoder),
        closing(bulk.windows(windows(), advance)) as coming,
    ):
        for vectors in coming:
            if not np.isfinite(vectors).all():
                raise InputError(f"{facts.name}: gives vectors that are not finite numbers; they cannot be found.")
            rows = under_way.popleft()
            lines = np.array([row.line for row in rows], dtype=np.int64)
            documents = np.array([row.document for row in rows], dtype=np.int64)
            ids, texts = [row.id for row in rows], [row.text for row in rows]
            reached = writer.append(NewRows(texts, ids, lines, documents, vectors))
            pending = pending.model_copy(update=reached._asdict())
            write_sealed_json(folder / PENDING, pending.model_dump())
    try:
        reading.report.check_kept()
    except InputError:
        forget_pending(folder)  # the same text would end here again
        raise
    if pending.source_fingerprint is None:
        return _Added(writer.extent, f"documents {read.hexdigest()}")
    if reading.fingerprint() != pending.source_fingerprint:
        raise _changed(folder, reading)
    return _Added(writer.extent, pending.source_fingerprint)


def _complete(
    folder: Path,
    dimension: int,
    facts: ModelFacts,
    reading: Reading[Any],
    pending: Pending,
    added: _Added,
    wanted: Wanted,
    before: Manifest | None,
    setup: SearchSetup | None,
    progress: bool,
) -> None:
    """Make the structure for all rows, then let the manifest say that they are there."""
    extent = added.extent
    kind = choose_kind(wanted.kind, extent.rows, dimension, before.kind if before else None)
    stored = StoredRows(folder, extent, dimension, before.way_back if before else ANEW)
    structure = None
    if kind != "exact":
        structure = _structure(folder, kind, stored.vectors, wanted, before, pending.generation, progress)
    if wanted.kind == "auto" and kind == "hnsw" and structure is not None and structure.recall < wanted.recall:
        kind = "ivf"  # a graph can have parts that no way leads to (as of many equal sentences), lists cannot
        structure = _structure(folder, kind, stored.vectors, wanted, before, pending.generation, progress)
    removed = np.empty(0, dtype=np.int64) if before is None else open_removed(folder, before)
    rows, replaced = find_replaced_rows(stored, pending.base_rows, removed)
    gone = np.concatenate([removed, rows])
    removal = write_removed(folder, pending.generation, gone)
    setup = setup or SearchSetup()
    lexical = None
    if (before is not None and before.lexical is not None) or (before is None and setup.lexical_weight):
        lexical = write_words(folder, pending.generation, stored, gone, progress=progress)
    source = SourceFacts(
        source=reading.source,
        first_row=pending.base_rows,
        rows=extent.rows - pending.base_rows,
        fingerprint=added.fingerprint,
        reading=reading.report.to_dict(),
        replaced=replaced,
    )
    manifest = Manifest(
        format=FORMAT,
        count=extent.rows,
        dimension=dimension,
        text_bytes=extent.text_bytes,
        asked_kind=wanted.kind,
        kind=kind,
        asked_recall=wanted.recall,
        seed=wanted.seed,
        generation=pending.generation,
        model=facts,
        sources=(*(before.sources if before else ()), source),
        structure=structure,
        libraries={**library_versions(), "faiss": str(load_faiss().__version__)},
        id_bytes=extent.id_bytes,
        documents=extent.documents,
        passages=pending.passages,
        removed=removal,
        setup=setup,
        lexical=lexical,
    )
    write_sealed_json(folder / MANIFEST, manifest.model_dump())
    # from here on it counts; what is left over does no harm if this is not reached
    for left_over in folder.glob("*.faiss"):
        if structure is None or left_over.name != structure.file:
            left_over.unlink()
    forget_older(folder, removal)
    forget_older_words(folder, lexical)


class _Row(NamedTuple):
    line: int
    document: int
    id: str
    text: str


def _structure(
    folder: Path, kind: Kind, vectors: Vectors, wanted: Wanted, before: Manifest | None, generation: int, progress: bool
) -> StructureFacts:
    old = before.structure if before is not None and before.kind == kind else None
    if old is not None and kind == "ivf" and trained_on_too_few(len(vectors), old.trained_rows):
        old = None
    with progress_bar(f"indexing ({kind})", len(vectors), "sentences", shown=progress) as advance:
        made = None if old is None or before is None else Structure.open(folder, before, change=True)
        if made is not None and old is not None:
            groups, trained_rows = old.groups, old.trained_rows
            advance(made.size)
            made.add(vectors, advance)
        else:
            groups, trained_rows = choose_groups(kind, len(vectors)), len(vectors)
            made = Structure.build(kind, vectors, groups, wanted.seed, advance)
    effort, recall, sample = choose_effort(made, vectors, groups, wanted.recall, wanted.seed)
    file = f"{kind}-{generation}.faiss"
    written = made.write(folder / file)
    return StructureFacts(
        file=file,
        size=written.size,
        sum=written.sum,
        groups=groups,
        effort=effort,
        trained_rows=trained_rows,
        recall=recall,
        sample=sample,
    )


def _changed(folder: Path, reading: Reading[Any]) -> InputError:
    forget_pending(folder)  # of a text that nobody has any more
    return InputError(f"{reading.source}: changed while it was read; run it again.")
