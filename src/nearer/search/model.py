"""The model of an index: what is noted of it, that no other is ever asked in its place, and reranking by it.

Reranking is a second look at what was found: how alike query and sentence rank a corpus (RankEncoder, Eq. 7).
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from nearer.errors import InputError, ModelError, SettingError
from nearer.search.manifest import ModelFacts
from nearer.search.nearest_neighbours import Rows, Vectors

if TYPE_CHECKING:
    from nearer.encoder import Encoder
    from nearer.search.snapshot import Snapshot
    from nearer.teachers import CrossEncoder, RankEncoder

    AnyModel = Encoder | RankEncoder

# What a model is loaded with and its settings do not say. Whether its own code may run, and whether its
# pickles may be read, is asked each time.
KEPT_OPTIONS = ("pooler_as_head", "revision", "route")
# Sentences of the index that are ranked where the model has no corpus of its own: nearly as good as the paper's 100 000
CORPUS = 10_000


def encoder_of(model: AnyModel) -> Encoder:
    from nearer.encoder import Encoder

    return model if isinstance(model, Encoder) else model.encoder


def describe_model(
    model: AnyModel,
    options: Mapping[str, Any],
    *,
    precision: str | None,
    prompt: str | None,
    query_prompt: str | None,
) -> ModelFacts:
    """options: those it was loaded with."""
    from nearer.encoder.fingerprint import encoder_fingerprint

    encoder = encoder_of(model)
    settings = encoder.settings
    for name in (prompt, query_prompt):
        settings.prompt(name)  # an unknown one is an error now, not after hours
    kept = {name: options[name] for name in KEPT_OPTIONS if options.get(name)}
    return ModelFacts(
        name=_lasting_name(encoder),
        options={
            "pooling": settings.pooling,
            "max_length": settings.max_length,
            "text_normalisation": settings.text_normalisation,
            "template": None if settings.template is None else settings.template.text,
            **kept,
        },
        fingerprint=encoder_fingerprint(encoder),
        precision=precision or encoder.precision,
        prompt=prompt,
        query_prompt=query_prompt,
    )


class IndexModel:
    """Loaded when a text is first asked for; several threads may ask at once, they are answered one by one."""

    def __init__(
        self,
        facts: ModelFacts,
        given: str | Path | AnyModel | None = None,
        *,
        device: Any = None,
        trust_remote_code: bool = False,
        allow_pickle: bool = False,
    ) -> None:
        """given: a model, or where it is now; None takes the one that the index names."""
        self.facts = facts
        self._given = given
        self.device = device
        self._permissions = {"trust_remote_code": trust_remote_code, "allow_pickle": allow_pickle}
        self._lock = threading.RLock()

    def encode(self, texts: Sequence[str]) -> Vectors:
        """Unit vectors (texts, dimension) of queries, as the index' own were computed."""
        for number, text in enumerate(texts):
            if not isinstance(text, str):
                raise InputError(f"queries: item {number} is {type(text).__name__}, a string is needed.")
            if not text.strip():
                raise InputError(f"queries: item {number} is empty; there is nothing to look for.")
        encoder = self.encoder
        with self._lock:
            return encoder.encode(
                texts, normalize=True, precision=self.facts.precision, prompt_name=self.facts.query_prompt
            )

    @property
    def encoder(self) -> Encoder:
        return encoder_of(self.loaded)

    @property
    def loaded(self) -> AnyModel:
        with self._lock:
            return self._loaded

    @cached_property
    def _loaded(self) -> AnyModel:
        from nearer.encoder import Encoder
        from nearer.encoder.fingerprint import encoder_fingerprint
        from nearer.teachers import load_model

        given = self._given
        if given is None or isinstance(given, (str, Path)):
            name = given or self.facts.name
            if not name:
                raise ModelError("the index' model had no name when it was built; say which it is.", argument="model")
            if given is None and Path(name).is_absolute() and not Path(name).is_dir():
                raise ModelError(f"{name}: the index' model is not there any more; say where it is.", argument="model")
            given = load_model(name, device=self.device, **self.facts.options, **self._permissions)
        found = encoder_fingerprint(encoder_of(given))
        length = int(self.facts.options.get("max_length") or 0)
        if (
            found != self.facts.fingerprint
            and isinstance(given, Encoder)
            and length not in (0, given.settings.max_length)
        ):
            as_built = given.with_max_length(length)  # the index read more or less of each text than the model does
            if encoder_fingerprint(as_built) == self.facts.fingerprint:
                return as_built
        if found != self.facts.fingerprint:
            raise ModelError(
                f"{encoder_of(given).name or 'the model'}: has fingerprint {found}, the index was built with "
                f"{self.facts.fingerprint} ({self.facts.name or 'a model without a name'}); two models' vectors "
                "cannot be compared: name the model it was built with, or build it anew."
            )
        return given


class Rerankers:
    """Cross-encoders by name, each loaded when it is first asked for."""

    def __init__(self, device: Any = None) -> None:
        self._device = device
        self._lock = threading.Lock()
        self._loaded: dict[str, CrossEncoder] = {}

    def load(self, name: str, given: object = None) -> CrossEncoder:
        """given: itself, where it is loaded already."""
        from nearer.teachers import CrossEncoder

        if isinstance(given, CrossEncoder):
            return given
        with self._lock:
            if name not in self._loaded:
                self._loaded[name] = CrossEncoder.load(name, device=self._device)
            return self._loaded[name]


class Reranking:
    """Holds the corpus for the state of the index that was asked last."""

    def __init__(self, model: IndexModel) -> None:
        self._model = model
        self._lock = threading.Lock()
        self._made: tuple[Snapshot, RankEncoder, float] | None = None

    def scores(
        self, snapshot: Snapshot, query: Vectors, rows: Rows, inference_weight: float | None
    ) -> NDArray[np.float64]:
        """The RankEncoder's similarity of a unit query to these rows."""
        # equal vectors share one score: equal columns of a matrix product can differ in the last bit
        unique, inverse = np.unique(snapshot.stored.vectors_of(rows), axis=0, return_inverse=True)
        with self._lock:  # one query at a time: its rank vectors take all cores anyway
            if self._made is None or self._made[0] is not snapshot:
                made = self._rank_encoder(snapshot)
                self._made = snapshot, made, made.inference_weight
            _, ranks, own_weight = self._made
            ranks.inference_weight = own_weight if inference_weight is None else inference_weight
            scores = ranks.score_matrix(query[None], unique)[0]
        found: NDArray[np.float64] = scores[inverse.reshape(-1)].astype(np.float64)
        return found

    def _rank_encoder(self, snapshot: Snapshot) -> RankEncoder:
        from nearer.teachers import RankEncoder

        model, fingerprint = self._model.loaded, self._model.facts.fingerprint
        if isinstance(model, RankEncoder):
            return RankEncoder(model.encoder, model.corpus, model.inference_weight, model.approximate, fingerprint)
        draw = np.random.default_rng(snapshot.manifest.seed)
        drawn = np.sort(draw.choice(snapshot.rows, min(CORPUS, len(snapshot.rows)), replace=False))
        rows = list({snapshot.stored.texts[row]: row for row in drawn.tolist()}.values())
        if len(rows) < 2:
            raise SettingError("rerank: a ranking needs at least 2 different sentences, and the index has 1.")
        return RankEncoder(model, snapshot.stored.vectors_of(np.array(rows)), 1.0, False, fingerprint)


def check_rerank(k: int, rerank: int, inference_weight: float | None) -> None:
    if k < 1:
        raise SettingError(f"k: {k} is below 1.")
    if rerank and rerank < k:
        raise SettingError(f"rerank: {rerank} sentences cannot be reordered into the best {k}; give {k} or more.")
    if inference_weight is not None and not rerank:
        raise SettingError("inference_weight: counts in reranking only; say how many are reordered (rerank).")
    if inference_weight is not None and not 0 <= inference_weight <= 1:
        raise SettingError(f"inference_weight: {inference_weight} is not between 0 and 1.")


def _lasting_name(encoder: Encoder) -> str:
    """Good from any folder: a folder with its whole path, any other name as it is."""
    if not encoder.name:
        return ""
    path = Path(encoder.name).expanduser()
    return str(path.resolve()) if path.is_dir() else encoder.name
