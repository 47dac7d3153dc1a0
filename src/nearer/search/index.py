"""An index in use: texts or vectors in, the nearest sentences out.

index = SearchIndex.build("wiki-mini", "corpus.txt", "corpus.index", pooling="mean")
index = SearchIndex.open("corpus.index")
for hit in index.search("how do birds find their way?", k=5):
    print(hit.score, hit.line, hit.text)
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

import numpy as np
from numpy.typing import NDArray

from nearer.errors import InputError, SettingError
from nearer.search.exact import Vectors, faiss
from nearer.search.manifest import AskedKind, Manifest, read_manifest
from nearer.search.model import IndexModel, describe_model, encoder_of
from nearer.search.opened import Hit, Opened, open_files
from nearer.search.reranking import Reranking

if TYPE_CHECKING:
    from nearer.search.model import AnyModel
    from nearer.text.in_memory import Source
    from nearer.text.reading import Reading

QUERIES_AT_ONCE = 256


class SearchIndex:
    """A folder with sentences and their vectors. Opening it maps the files; the model is loaded for the first text.

    Any number of threads may search, also while another adds: each search sees one state.
    """

    def __init__(self, folder: Path, model: IndexModel, opened: Opened) -> None:
        self.folder = folder
        self.model = model
        self._opened = opened
        self._reranking = Reranking(model)

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
        """model: the model itself, or where it is now; None takes the one that the index names, when it is needed."""
        path = Path(folder)
        opened = open_files(path)
        facts = opened.manifest.model
        asked = IndexModel(facts, model, device=device, trust_remote_code=trust_remote_code, allow_pickle=allow_pickle)
        return cls(path, asked, opened)

    @classmethod
    def build(
        cls,
        model: str | Path | AnyModel,
        source: Source | Reading[str],
        out: str | Path,
        *,
        kind: AskedKind = "auto",
        recall: float = 0.95,
        precision: str | None = None,
        prompt: str | None = None,
        query_prompt: str | None = None,
        seed: int = 0,
        device: Any = None,
        progress: bool = False,
        overwrite: bool = False,
        **options: Any,
    ) -> SearchIndex:
        """Encode sentences and save them as an index; an interrupted build goes on when called again.

        source: a file, a list or another iterable, a data frame, a data set, or a `Reading` of any of them.
        kind: exact, ivf, hnsw, or auto, by size. recall: of the ten nearest, for approximate kinds; their effort is
        chosen by it. prompt, query_prompt: names of the model's prompts, for sentences and for queries. seed: of the
        clustering and of the samples. options: of loading the model, where a name is given (pooling …).
        """
        from nearer.search.building import build_index
        from nearer.search.choosing import Wanted
        from nearer.search.pending import source_fingerprint
        from nearer.search.places import check_output
        from nearer.teachers import load_model

        wanted = Wanted(kind, recall, seed)
        wanted.check()
        path = Path(out)
        faiss()  # whatever is missing or wrong should not cost the loading of a model
        check_output(path, overwrite=overwrite)
        reading = _reading(source)
        fingerprint = source_fingerprint(reading)
        loaded = load_model(model, device=device, **options) if isinstance(model, (str, Path)) else model
        facts = describe_model(loaded, options, precision=precision, prompt=prompt, query_prompt=query_prompt)
        build_index(
            encoder_of(loaded), facts, reading, fingerprint, path, wanted, progress=progress, overwrite=overwrite
        )
        return cls.open(path, model=loaded)

    def add(self, source: Source | Reading[str], *, progress: bool = False, force: bool = False) -> None:
        """Add a file's sentences behind those that are there. Until it is done, everybody sees the index as it was.

        Interrupted, it goes on when called again with the same; force: begin anew where something else was begun.
        """
        from nearer.search.building import add_to_index
        from nearer.search.pending import source_fingerprint, written_by_us_alone

        reading = _reading(source)
        fingerprint = source_fingerprint(reading)
        with written_by_us_alone(self.folder):
            now = read_manifest(self.folder)  # another process may have added since this one was opened
            if now.model.fingerprint != self.manifest.model.fingerprint:
                raise InputError(f"{self.folder}: was built anew by another model since it was opened; open it again.")
            add_to_index(self.model.encoder, self.folder, now, reading, fingerprint, progress=progress, fresh=force)
            self._opened = open_files(self.folder)

    @overload
    def search(
        self,
        queries: str,
        k: int = ...,
        *,
        exact: bool = ...,
        rerank: int = ...,
        inference_weight: float | None = ...,
    ) -> list[Hit]: ...
    @overload
    def search(
        self,
        queries: list[str] | tuple[str, ...] | NDArray[Any],
        k: int = ...,
        *,
        exact: bool = ...,
        rerank: int = ...,
        inference_weight: float | None = ...,
    ) -> list[list[Hit]]: ...

    def search(
        self,
        queries: str | list[str] | tuple[str, ...] | NDArray[Any],
        k: int = 10,
        *,
        exact: bool = False,
        rerank: int = 0,
        inference_weight: float | None = None,
    ) -> list[Hit] | list[list[Hit]]:
        """The k nearest sentences: of one text a list, of several texts or of vectors (queries, dimension) a list each.

        Of an index with fewer sentences all are returned. exact: look at all vectors whatever the kind. rerank: take
        so many by cosine and order them by how alike they rank a corpus (RankEncoder, Eq. 7); inference_weight: λ_inf,
        by default that of the model, and 1 where the model is no RankEncoder.
        """
        if k < 1:
            raise SettingError(f"k: {k} is below 1.")
        if rerank and rerank < k:
            raise SettingError(f"rerank: {rerank} sentences cannot be reordered into the best {k}; give {k} or more.")
        if inference_weight is not None and not rerank:
            raise SettingError("inference_weight: counts in reranking only; say how many are reordered (rerank).")
        if inference_weight is not None and not 0 <= inference_weight <= 1:
            raise SettingError(f"inference_weight: {inference_weight} is not between 0 and 1.")
        if isinstance(queries, str):
            return self.search([queries], k, exact=exact, rerank=rerank, inference_weight=inference_weight)[0]
        opened = self._opened
        vectors = self._vectors(queries)
        found = []
        for start in range(0, len(vectors), QUERIES_AT_ONCE):
            part = vectors[start : start + QUERIES_AT_ONCE]
            nearest = opened.nearest(part, max(k, rerank), exact)
            for query, (rows, cosines) in zip(part, nearest, strict=True):
                scores = cosines
                if rerank:
                    scores = self._reranking.scores(opened, query, rows, inference_weight)
                    order = np.argsort(-scores, kind="stable")
                    rows, cosines, scores = rows[order], cosines[order], scores[order]
                triples = zip(rows[:k].tolist(), scores[:k].tolist(), cosines[:k].tolist(), strict=True)
                found.append([opened.hit(*triple) for triple in triples])
        return found

    @property
    def manifest(self) -> Manifest:
        return self._opened.manifest

    @property
    def texts(self) -> Sequence[str]:
        return self._opened.texts

    @property
    def vectors(self) -> Vectors:
        """Unit vectors (sentences, dimension), mapped."""
        return self._opened.vectors

    def origin(self, row: int) -> tuple[int, str]:
        """The line that a sentence comes from, and its file or data set."""
        return self._opened.origin(row)

    def __len__(self) -> int:
        return self.manifest.count

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


def _reading(source: Source | Reading[str]) -> Reading[str]:
    from nearer.text import Reading, read_sentences

    return source if isinstance(source, Reading) else read_sentences(source)
