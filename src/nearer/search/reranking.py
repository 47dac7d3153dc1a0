"""The second look at what was found: how alike query and sentence rank a corpus (RankEncoder, Eq. 7)."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from nearer.errors import SettingError
from nearer.search.exact import Rows, Vectors
from nearer.search.model import IndexModel

if TYPE_CHECKING:
    from nearer.search.opened import Opened
    from nearer.teachers import RankEncoder

# Sentences of the index that are ranked where the model has no corpus of its own: nearly as good as the paper's 100 000
CORPUS = 10_000


class Reranking:
    """Holds the corpus for the state of the index that was asked last."""

    def __init__(self, model: IndexModel) -> None:
        self._model = model
        self._lock = threading.Lock()
        self._made: tuple[Opened, RankEncoder, float] | None = None

    def scores(self, opened: Opened, query: Vectors, rows: Rows, inference_weight: float | None) -> NDArray[np.float64]:
        """The RankEncoder's similarity of a unit query to these rows."""
        # equal vectors share one score: equal columns of a matrix product can differ in the last bit
        unique, inverse = np.unique(opened.stored.vectors_of(rows), axis=0, return_inverse=True)
        with self._lock:  # one query at a time: its rank vectors take all cores anyway
            if self._made is None or self._made[0] is not opened:
                made = self._rank_encoder(opened)
                self._made = opened, made, made.inference_weight
            _, ranks, own_weight = self._made
            ranks.inference_weight = own_weight if inference_weight is None else inference_weight
            scores = ranks.score_matrix(query[None], unique)[0]
        found: NDArray[np.float64] = scores[inverse.reshape(-1)].astype(np.float64)
        return found

    def _rank_encoder(self, opened: Opened) -> RankEncoder:
        from nearer.teachers import RankEncoder

        model, fingerprint = self._model.loaded, self._model.facts.fingerprint
        if isinstance(model, RankEncoder):
            return RankEncoder(model.encoder, model.corpus, model.inference_weight, model.approximate, fingerprint)
        draw = np.random.default_rng(opened.manifest.seed)
        drawn = np.sort(draw.choice(opened.rows, min(CORPUS, len(opened.rows)), replace=False))
        places = list({opened.stored.texts[row]: row for row in drawn.tolist()}.values())
        if len(places) < 2:
            raise SettingError("rerank: a ranking needs at least 2 different sentences, and the index has 1.")
        return RankEncoder(model, opened.stored.vectors_of(np.array(places)), 1.0, False, fingerprint)
