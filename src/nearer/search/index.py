"""An index in use: texts or vectors in, the nearest sentences out."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack, overload

import numpy as np
from numpy.typing import NDArray

from nearer.errors import InputError, SettingError
from nearer.search.lexical import load_bm25s
from nearer.search.manifest import AskedKind, Manifest, read_manifest
from nearer.search.model import IndexModel, Rerankers, Reranking, check_rerank, describe_model, encoder_of
from nearer.search.nearest_neighbours import Vectors, load_faiss
from nearer.search.setup import find_setup
from nearer.search.snapshot import Hit, Snapshot, open_snapshot

if TYPE_CHECKING:
    from nearer.search.hybrid import SearchOptions
    from nearer.search.model import AnyModel
    from nearer.teachers import CrossEncoder
    from nearer.text.in_memory import Source
    from nearer.text.reading import Reading

QUERIES_AT_ONCE = 256


class SearchIndex:
    """A folder with sentences and their vectors. Opening it maps the files; the model is loaded for the first text.

    Make one with `SearchIndex.build`, use one with `SearchIndex.open`. Any number of threads may search, also while
    another adds: each search sees one state.

    Examples:
        >>> import nearer
        >>> texts = ["A man is eating.", "It rains."]
        >>> index = nearer.SearchIndex.build("wiki-mini", texts, "mine.index", pooling="mean")
        >>> [hit.text for hit in nearer.SearchIndex.open("mine.index").search("Somebody has lunch.", k=1)]
        ['A man is eating.']
    """

    def __init__(self, folder: Path, model: IndexModel, snapshot: Snapshot) -> None:
        self.folder = folder
        self.model = model
        self.snapshot = snapshot
        self._reranking = Reranking(model)
        self.rerankers = Rerankers(model.device)

    @classmethod
    def open(
        cls,
        folder: str | Path,
        *,
        model: str | Path | AnyModel | None = None,
        device: Any = None,
        trust_remote_code: bool = False,
        allow_pickle: bool = False,
    ) -> SearchIndex:
        """Map the files of a search index.

        Args:
            folder: What `build` wrote.
            model: The model itself, or where it is now; None takes the one that the index names, when it is needed.
            device: Where the model computes; None takes a GPU if there is one.
            trust_remote_code: Run code that comes with the model.
            allow_pickle: Read weights that are there as pickles only.
        """
        path = Path(folder)
        snapshot = open_snapshot(path)
        facts = snapshot.manifest.model
        asked = IndexModel(facts, model, device=device, trust_remote_code=trust_remote_code, allow_pickle=allow_pickle)
        return cls(path, asked, snapshot)

    @classmethod
    def build(
        cls,
        model: str | Path | AnyModel,
        source: Source | Reading[Any],
        out: str | Path,
        *,
        kind: AskedKind = "auto",
        recall: float = 0.95,
        precision: str | None = None,
        prompt: str | None = None,
        query_prompt: str | None = None,
        columns: Sequence[str] | None = None,
        id_column: str | None = None,
        passages: int | None = None,
        overlap: int | None = None,
        max_length: int | None = None,
        lexical_weight: float | None = None,
        seed: int = 0,
        device: Any = None,
        progress: bool = False,
        overwrite: bool = False,
        **options: Any,
    ) -> SearchIndex:
        """Encode sentences or documents and save them as an index; an interrupted build goes on when called again.

        Args:
            model: The model itself, or its folder or name.
            source: A file, a list or another iterable, a data frame, a data set, or a `Reading` of any of them.
            out: The new folder.
            kind: exact, ivf, hnsw, or auto, by size.
            recall: Of the ten nearest, for approximate kinds; their effort is chosen by it.
            precision: What encoding computes in; None is the model's.
            prompt: The name of the model's prompt for sentences.
            query_prompt: The name of the model's prompt for queries.
            columns: See `read_documents`.
            id_column: See `read_documents`.
            passages: Cut texts into pieces of so many tokens.
            overlap: How many of these are those of the piece before; None: an eighth.
            max_length: Tokens of a text that are read; None takes the 95th percentile of the text's lengths where that
                is more than the model's own, up to what the model takes.
            lexical_weight: How much BM25 counts beside the vectors, which is then kept with them; None does as the
                model's set-up says, see `SearchSetup`, and 0 leaves it out.
            seed: Of the clustering and of the samples.
            device: Where the model computes; None takes a GPU if there is one.
            progress: Show a bar.
            overwrite: Replace an index that is there.
            options: Of loading the model, where a name is given (pooling …).
        """
        from nearer.encoder import Encoder
        from nearer.search.build_state import source_fingerprint
        from nearer.search.building import build_index
        from nearer.search.documents import as_reading, choose_length, count_special_tokens, make_passages
        from nearer.search.manifest import check_output
        from nearer.search.tuning import Wanted
        from nearer.teachers import load_model

        wanted = Wanted(kind, recall, seed)
        wanted.check()
        pieces = make_passages(passages, overlap)
        path = Path(out)
        load_faiss()  # whatever is missing or wrong should not cost the loading of a model
        check_output(path, overwrite=overwrite)
        reading = as_reading(source, columns, id_column)
        fingerprint = source_fingerprint(reading)
        setup = find_setup(model).changed(lexical_weight=lexical_weight)
        if setup.lexical_weight:
            load_bm25s()
        prompt, query_prompt = prompt or setup.passage_prompt, query_prompt or setup.query_prompt
        loaded = model
        if isinstance(loaded, (str, Path)):
            loaded = load_model(loaded, device=device, max_length=max_length, **options)
            if max_length is None and isinstance(loaded, Encoder):  # a RankEncoder's corpus is of one length
                length = choose_length(loaded, reading, pieces, prompt)
                loaded = loaded if length == loaded.settings.max_length else loaded.with_max_length(length)
        elif max_length is not None:
            raise SettingError("max_length: is for models that are given by name; this one is loaded, and has its own.")
        encoder = encoder_of(loaded)
        if pieces is not None:
            pieces.check(encoder.settings.max_length - count_special_tokens(encoder))
        facts = describe_model(loaded, options, precision=precision, prompt=prompt, query_prompt=query_prompt)
        build_index(
            encoder,
            facts,
            reading,
            fingerprint,
            path,
            wanted,
            passages=pieces,
            setup=setup,
            progress=progress,
            overwrite=overwrite,
        )
        return cls.open(path, model=loaded)

    def add(
        self,
        source: Source | Reading[Any],
        *,
        columns: Sequence[str] | None = None,
        id_column: str | None = None,
        progress: bool = False,
        force: bool = False,
        again: bool = False,
    ) -> None:
        """Add sentences or documents behind those that are there, cut into passages as those are.

        A document replaces the one that has its id. Until it is done, everybody sees the index as it was. Interrupted,
        it goes on when called again with the same. A text that is in the index already is refused, unless its documents
        have ids.

        Args:
            source: As for `build`.
            columns: See `read_documents`.
            id_column: See `read_documents`.
            progress: Show a bar.
            force: Begin anew where something else was begun.
            again: Add a text all the same that is in the index already.
        """
        from nearer.search.build_state import LOCK, check_not_repeated, source_fingerprint
        from nearer.search.building import add_to_index
        from nearer.search.documents import as_reading
        from nearer.storage.whole import written_by_us_alone

        reading = as_reading(source, columns, id_column)
        fingerprint = source_fingerprint(reading)
        with written_by_us_alone(self.folder / LOCK, self.folder):
            now = read_manifest(self.folder)  # another process may have added since this one was opened
            if now.model.fingerprint != self.manifest.model.fingerprint:
                raise InputError(f"{self.folder}: was built anew by another model since it was opened; open it again.")
            if not again:
                check_not_repeated(self.folder, now, reading.source, fingerprint)
            add_to_index(
                self.model.encoder, self.folder, now, reading, fingerprint, progress=progress, fresh=force, again=again
            )
            self.snapshot = open_snapshot(self.folder)

    def remove(self, ids: Sequence[str]) -> int:
        """Remove documents by their ids and return how many; one that is not there is an error, which removes nothing.

        Their rows stay in the files, and are found no more; building anew frees their place.
        """
        from nearer.encoder.comparing import listed
        from nearer.search.build_state import LOCK
        from nearer.search.removal import remove_ids
        from nearer.storage.whole import written_by_us_alone

        wanted = listed(ids, "ids")
        with written_by_us_alone(self.folder / LOCK, self.folder):
            removed = remove_ids(self.folder, read_manifest(self.folder), [str(id) for id in wanted])
            self.snapshot = open_snapshot(self.folder)
        return removed

    @overload
    def search(self, queries: str, k: int = ..., **options: Unpack[SearchOptions]) -> list[Hit]: ...
    @overload
    def search(
        self, queries: list[str] | tuple[str, ...] | NDArray[Any], k: int = ..., **options: Unpack[SearchOptions]
    ) -> list[list[Hit]]: ...

    def search(
        self,
        queries: str | list[str] | tuple[str, ...] | NDArray[Any],
        k: int = 10,
        *,
        exact: bool = False,
        rerank: int = 0,
        inference_weight: float | None = None,
        all_passages: bool = False,
        lexical_weight: float | None = None,
        reranker: str | Path | CrossEncoder | bool | None = None,
        rerank_weight: float | None = None,
        candidates: int | None = None,
    ) -> list[Hit] | list[list[Hit]]:
        """The k nearest sentences: of one text a list, of several texts or of vectors (queries, dimension) a list each.

        Args:
            queries: One text, several texts, or vectors.
            k: How many are returned; of an index with fewer sentences all are.
            exact: Look at all vectors whatever the kind.
            rerank: Take so many by cosine and order them by how alike they rank a corpus (RankEncoder, Eq. 7).
            inference_weight: λ_inf; by default that of the model, and 1 where the model is no RankEncoder.
            all_passages: Of an index of passages, any number of them of one document; else the nearest alone.
            lexical_weight: How much BM25 counts beside the vectors' 1; None does as the index' set-up says.
            reranker: A cross-encoder that scores the best candidates; None does as the set-up says, False takes none.
            rerank_weight: How much the cross-encoder counts beside the vectors' 1.
            candidates: How many are taken from vectors, as many from BM25, and how many the cross-encoder reads.

        Shapes:
            queries: vectors are (queries, dimension).
        """
        check_rerank(k, rerank, inference_weight)
        setup = self.manifest.setup.changed(
            lexical_weight=lexical_weight,
            reranker=reranker if reranker is None or isinstance(reranker, (bool, str, Path)) else reranker.name,
            rerank_weight=rerank_weight,
            candidates=candidates,
        )
        given: Any = [queries] if isinstance(queries, str) else queries
        if setup.is_plain:
            found = self._search_vectors(given, k, exact, rerank, inference_weight, all_passages)
        elif rerank:
            raise SettingError("rerank: is by vectors alone; give lexical_weight=0 and reranker=False with it.")
        elif isinstance(given, np.ndarray):
            raise SettingError("queries: vectors have no words; give texts, or lexical_weight=0 and reranker=False.")
        else:
            from nearer.search.hybrid import search_hybrid

            judge = None if setup.reranker is None else self.rerankers.load(setup.reranker.model, reranker)
            found = search_hybrid(self.snapshot, given, self._vectors, setup, k, judge, exact, all_passages)
        return found[0] if isinstance(queries, str) else found

    def _search_vectors(
        self, queries: Any, k: int, exact: bool, rerank: int, weight: float | None, all_passages: bool
    ) -> list[list[Hit]]:
        snapshot = self.snapshot
        vectors = self._vectors(queries)
        found = []
        for start in range(0, len(vectors), QUERIES_AT_ONCE):
            part = vectors[start : start + QUERIES_AT_ONCE]
            nearest = snapshot.nearest(part, max(k, rerank), exact, all_passages=all_passages)
            for query, (rows, cosines) in zip(part, nearest, strict=True):
                scores = cosines
                if rerank:
                    scores = self._reranking.scores(snapshot, query, rows, weight)
                    order = np.argsort(-scores, kind="stable")
                    rows, cosines, scores = rows[order], cosines[order], scores[order]
                found.append(snapshot.hits(rows[:k], scores, cosines))
        return found

    @property
    def manifest(self) -> Manifest:
        return self.snapshot.manifest

    @property
    def texts(self) -> Sequence[str]:
        """Each is checked when it is first looked up: one that is damaged is an error."""
        return self.snapshot.stored.texts

    @property
    def vectors(self) -> Vectors:
        """Unit vectors (sentences, dimension), mapped; all are checked when they are first asked for."""
        return self.snapshot.stored.vectors

    def vectors_of(self, rows: NDArray[np.int64]) -> Vectors:
        """Of these rows alone: no others are read."""
        return self.snapshot.stored.vectors_of(rows)

    def origin(self, row: int) -> tuple[int, str]:
        """The line that a sentence comes from, and its file or data set."""
        return self.snapshot.origin(row)

    @property
    def rows(self) -> NDArray[np.int64]:
        """Rows of `texts` and `vectors` that were not removed or replaced."""
        return self.snapshot.rows

    def __len__(self) -> int:
        """The number of its documents."""
        return self.snapshot.document_count

    def _vectors(self, queries: Sequence[str] | NDArray[Any]) -> Vectors:
        from nearer.encoder.comparing import listed, unit_rows

        if not isinstance(queries, np.ndarray):
            texts = listed(queries, "queries")
            return self.model.encode(texts) if texts else np.empty((0, self.manifest.dimension), dtype=np.float32)
        dimension = self.manifest.dimension
        if queries.ndim != 2 or queries.shape[1] != dimension:
            raise InputError(f"queries: vectors of shape {queries.shape} given, (queries, {dimension}) needed.")
        if not np.isfinite(queries).all():
            raise InputError("queries: vectors with numbers that are not finite.")
        unit: Vectors = unit_rows(queries.astype(np.float32))
        return unit
