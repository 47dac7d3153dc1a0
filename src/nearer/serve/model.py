"""The model behind the service: texts in, vectors and counts out. One thread alone may call `encode`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from nearer.baselines.static_words import StaticWords
from nearer.baselines.static_words import tokens as words_of
from nearer.encoder import Encoder
from nearer.encoder.encoding import BulkEncoding, once_each
from nearer.encoder.network import SentenceNetwork, at_inference
from nearer.encoder.onnx_encoder import OnnxEncoder
from nearer.errors import ModelError, SettingError
from nearer.text.tokenise import normalisation, tokenise

if TYPE_CHECKING:
    from nearer.teachers import CrossEncoder, RankEncoder

    AnyModel = Encoder | RankEncoder | OnnxEncoder | StaticWords

Vectors = NDArray[np.float32]
# English text has four to five characters a token; a little less, so that a batch is rather too small than too big
CHARACTERS_A_TOKEN = 4
# Padded tokens of a pass on a CPU: larger ones gain nothing there, and pad more in batches as small as a service's
PASS_ON_CPU = 512
# Tokens that are taken from the queue at once: more sort better into passes, fewer are answered sooner
BATCH_ON_CPU, BATCH_ON_GPU = 4096, 32_768


@dataclass(frozen=True)
class Relevance:
    """How documents are scored for a query where that is not the model's similarity: weights by judge, see
    `nearer.search.fusion`, and the cross-encoder among them."""

    weights: Mapping[str, float]
    judge: CrossEncoder | None = None


class PairTexts:
    """The documents of one query as the queue takes texts: each is read together with the query."""

    def __init__(self, judge: CrossEncoder, query: str) -> None:
        self._judge = judge
        self._query = query

    @property
    def batch_tokens(self) -> int:
        return BATCH_ON_CPU if self._judge.device.type == "cpu" else BATCH_ON_GPU

    def cost(self, text: str) -> int:
        """Tokens of a pair, estimated without a tokenizer."""
        return min(self._judge.max_length, 3 + (len(self._query) + len(text)) // CHARACTERS_A_TOKEN)

    def encode(self, texts: Sequence[str]) -> Encoded:
        """A text's only number is its score."""
        pairs = np.stack([np.zeros(len(texts), dtype=np.int64), np.arange(len(texts))], axis=1)
        found = self._judge.score_and_count([self._query], texts, pairs)
        return Encoded(found.scores[:, None], found.tokens, found.cut)


@dataclass(frozen=True)
class Encoded:
    """vectors: (texts, dimension); tokens: that each vector was made of; cut: whether more of its text was left out."""

    vectors: Vectors
    tokens: NDArray[np.int64]
    cut: NDArray[np.bool_]


class ServedModel:
    """An encoder, a RankEncoder, an ONNX export or static words under the name that requests call it by.

    normalize: vectors of length 1; None does as the model says. Scores are the model's own: a RankEncoder's are not
    cosines. precision, prompt: of an encoder's passes, and the name of its prompt, where they are not its own.
    relevance: how documents are scored for a query; None: by the model's similarity.
    """

    def __init__(
        self,
        model: AnyModel,
        name: str | None = None,
        *,
        normalize: bool | None = None,
        precision: str | None = None,
        prompt: str | None = None,
        relevance: Relevance | None = None,
    ) -> None:
        if isinstance(model, OnnxEncoder) and model.settings.normalize and normalize is False:
            raise SettingError(f"--no-normalize: the graph of {model.name} gives vectors of length 1 only.")
        self.model = model
        self.name = name or public_name(model.name)
        self.normalize = normalize
        self.relevance = relevance
        self._prompt = prompt
        self._encoder = _encoder_of(model)
        self._bulk = None if self._encoder is None else self._new_bulk(self._encoder, precision)

    @property
    def dimension(self) -> int:
        return self._encoder.dimension if self._encoder is not None else self.model.dimension  # type: ignore[union-attr]

    @property
    def unit_length(self) -> bool:
        """Whether vectors have length 1."""
        return self.model.settings.normalize if self.normalize is None else self.normalize

    @property
    def batch_tokens(self) -> int:
        """Tokens that are well encoded together."""
        return BATCH_ON_CPU if self.model.device.type == "cpu" else BATCH_ON_GPU

    @property
    def max_length(self) -> int:
        return self.model.settings.max_length

    def cost(self, text: str) -> int:
        """Tokens of a text, estimated without a tokenizer."""
        return min(self.max_length, 2 + len(text) // CHARACTERS_A_TOKEN)

    def encode(self, texts: Sequence[str]) -> Encoded:
        """Equal texts are computed once and have the same vector to the last bit."""
        unique, inverse = once_each(texts)
        encoded = self._counted(unique) if self._bulk is None else self._passed(self._bulk, unique)
        if not np.isfinite(encoded.vectors).all():
            raise ModelError(f"{self.name}: gives vectors that are not finite numbers.")
        if inverse is None:
            return encoded
        return Encoded(encoded.vectors[inverse], encoded.tokens[inverse], encoded.cut[inverse])

    def pair_scores(self, first: Vectors, second: Vectors) -> NDArray[np.float64]:
        return self.model.pair_scores(first, second)

    def score_matrix(self, first: Vectors, second: Vectors) -> Vectors:
        return self.model.score_matrix(first, second)

    def _passed(self, bulk: BulkEncoding, texts: Sequence[str]) -> Encoded:
        with at_inference(bulk.encoder):
            tokenised = bulk.tokenise(texts)
            vectors: Vectors = bulk.vectors(tokenised).cpu().numpy()
        cut = tokenised.lengths >= self.max_length
        if cut.any():  # a text may also just fit: it does if one token more makes no difference
            full = np.flatnonzero(cut).tolist()
            cut[full] = self._lengths(bulk.encoder, [texts[row] for row in full]) > self.max_length
        return Encoded(vectors, tokenised.lengths, cut)

    def _counted(self, texts: Sequence[str]) -> Encoded:
        """Of a model that is asked as a whole; what it was made of is counted beside."""
        model: Any = self.model
        if isinstance(model, OnnxEncoder):
            counts, most = self._lengths(model, texts), self.max_length
            vectors = model.encode(texts, normalize=self.normalize)
        else:
            counts = np.array([len(words_of(text)) for text in texts], dtype=np.int64)
            vectors, most = model.encode(texts, normalize=bool(self.normalize)), model.max_words
        return Encoded(vectors, np.minimum(counts, most), counts > most)

    def _lengths(self, model: SentenceNetwork | OnnxEncoder, texts: Sequence[str]) -> NDArray[np.int64]:
        """Tokens of each text, one more than is read where there are more."""
        settings = model.settings
        normalise = normalisation(settings.text_normalisation)
        whole = [settings.prompt(self._prompt) + normalise(text) for text in texts]
        return np.array([len(ids) for ids in tokenise(model.tokenizer, whole, self.max_length + 1)], dtype=np.int64)

    def _new_bulk(self, encoder: Encoder, precision: str | None) -> BulkEncoding:
        settings = encoder.settings
        return BulkEncoding(
            encoder,
            normalize=self.unit_length,
            precision=precision or encoder.precision,
            prompt=settings.prompt(self._prompt),
            batch_tokens=PASS_ON_CPU if encoder.device.type == "cpu" else None,
        )


def public_name(name: str) -> str:
    """What requests call a model: a folder's last part, or that of the run whose model it is; a hub name as it is."""
    path = Path(name).expanduser()
    if not path.is_dir():
        return name or "model"
    resolved = path.resolve()
    return (resolved.parent.name if resolved.name == "model" else resolved.name) or "model"


def _encoder_of(model: AnyModel) -> Encoder | None:
    if isinstance(model, (OnnxEncoder, StaticWords)):
        return None
    return model if isinstance(model, Encoder) else model.encoder
