"""RankEncoder at inference (Eq. 7): an encoder, the vectors of a corpus, and how much the corpus has to say.

Saved, it is the encoder's folder with two files more, so that sentence-transformers still reads the encoder:

    rank_corpus.npy    unit vectors of the corpus, float16
    rank_corpus.json   λ_inf, exact or approximate, and the encoder that the vectors come from
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from nearer.encoder import Encoder
from nearer.encoder.batching import CutTexts
from nearer.encoder.comparing import Comparing, Vectors, listed, unit_rows
from nearer.encoder.fingerprint import encoder_fingerprint
from nearer.encoder.folder import save_parts
from nearer.encoder.parts import Dense, EncoderSettings
from nearer.encoder.sources import model_folder
from nearer.errors import InputError, ModelError, SettingError, first_line
from nearer.teachers.rank_vectors import CorpusCovariance, CorpusRanks, RankSimilarity

VECTORS_FILE, FACTS_FILE = "rank_corpus.npy", "rank_corpus.json"


@dataclass(eq=False)
class RankEncoder(Comparing):
    """similarity = λ_inf · Spearman's correlation of the two similarity lists + (1 − λ_inf) · cosine.

    Attributes:
        encoder: The encoder that makes the vectors.
        corpus: Unit vectors of a corpus by the same encoder.
        inference_weight: λ_inf. With 1 it is the paper's RankEncoder_E: rank vectors alone, on an encoder as it is.
        approximate: Compute the correlations from the corpus' covariance instead of from its ranks: faster, not exact.
        made_by: The fingerprint of the encoder that the corpus' vectors come from; by default this one as it is now.

    Shapes:
        corpus: (corpus size, dimension), with 2 sentences at least.

    Examples:
        >>> import nearer
        >>> encoder = nearer.Encoder.load("wiki-mini", pooling="mean")
        >>> ranked = nearer.RankEncoder.build(encoder, ["It rains.", "The sun is shining.", "He repairs the engine."])
        >>> ranked.rank("It is raining.", ["An engine.", "Rain."])[0].sentence
        'Rain.'
    """

    encoder: Encoder
    corpus: NDArray[Any]
    inference_weight: float = 0.1
    approximate: bool = False
    made_by: str = ""

    def __post_init__(self) -> None:
        if not 0 <= self.inference_weight <= 1:
            raise SettingError(f"inference_weight: {self.inference_weight} is not between 0 and 1.")
        if self.corpus.ndim != 2 or self.corpus.shape[1] != self.encoder.dimension or len(self.corpus) < 2:
            raise InputError(
                f"corpus: vectors of shape {self.corpus.shape} given, (2 or more, {self.encoder.dimension}) needed."
            )
        self.made_by = self.made_by or encoder_fingerprint(self.encoder)

    @classmethod
    def build(
        cls,
        encoder: Encoder,
        sentences: Iterable[str],
        *,
        inference_weight: float = 1.0,
        approximate: bool = False,
        progress: bool = False,
    ) -> RankEncoder:
        """Encode a corpus for an encoder.

        Args:
            encoder: The encoder that makes the vectors.
            sentences: The corpus, of 2 different sentences at least.
            inference_weight: λ_inf; see the class.
            approximate: See the class.
            progress: Show a bar.
        """
        sentences = listed(sentences, "sentences")
        if len(set(sentences)) < 2:
            raise InputError(f"corpus: a ranking needs at least 2 different sentences, {len(set(sentences))} given.")
        vectors = encoder.encode(sentences, normalize=True, progress=progress).astype(np.float16)
        if not np.isfinite(vectors).all():
            raise InputError(f"{encoder.name}: gives vectors that are not finite numbers; they cannot be ranked.")
        return cls(encoder, vectors, inference_weight, approximate)

    @classmethod
    def load(cls, name: str | Path, *, device: str | torch.device | None = None, **options: Any) -> RankEncoder:
        """From its folder. The corpus is mapped, and refused if another encoder made it."""
        folder = chosen_folder(name, options)
        try:
            facts = json.loads((folder / FACTS_FILE).read_text(encoding="utf-8"))
            weight, approximate, maker = float(facts["inference_weight"]), facts["approximate"], facts["encoder"]
            corpus = np.load(folder / VECTORS_FILE, mmap_mode="r")
            if not np.issubdtype(corpus.dtype, np.floating):
                raise ValueError(f"vectors of {corpus.dtype}")
        except FileNotFoundError as error:
            raise ModelError(f"{folder}: is not a RankEncoder (no {Path(str(error.filename)).name}).") from None
        except Exception as error:  # numpy and json complain of damage in many ways
            raise ModelError(
                f"{folder}: its {FACTS_FILE} or {VECTORS_FILE} cannot be used ({first_line(error)})."
            ) from None
        encoder = Encoder.load(name, device=device, **options)
        if encoder_fingerprint(encoder) != maker:
            raise ModelError(
                f"{folder}: its corpus vectors are not of this encoder or of these settings; "
                "make them anew (nearer rank-encoder)."
            )
        try:
            return cls(encoder, corpus, weight, approximate, maker)
        except (InputError, SettingError) as error:
            raise ModelError(f"{folder}: {error}") from None

    def save(self, folder: str | Path, *, overwrite: bool = False) -> None:
        if encoder_fingerprint(self.encoder) != self.made_by:
            raise ModelError(f"{folder}: the encoder has changed since its corpus was encoded; build it anew.")
        facts = {
            "inference_weight": self.inference_weight,
            "approximate": self.approximate,
            "sentences": len(self.corpus),
            "encoder": self.made_by,
        }

        def add(folder: Path) -> None:
            np.save(folder / VECTORS_FILE, self.corpus)
            (folder / FACTS_FILE).write_text(json.dumps(facts, indent=2) + "\n", encoding="utf-8")

        save_parts(self.encoder, Path(folder), overwrite=overwrite, add=add)

    @property
    def name(self) -> str:
        return self.encoder.name

    @property
    def settings(self) -> EncoderSettings:
        return self.encoder.settings

    @property
    def head(self) -> Dense | None:
        return self.encoder.head

    @property
    def device(self) -> torch.device:
        return self.encoder.device

    @property
    def cut_texts(self) -> CutTexts:
        """How many texts its encoder encoded so far, and of how many it left out the end."""
        return self.encoder.cut_texts

    @property
    def precision(self) -> str:
        return self.encoder.precision

    @precision.setter
    def precision(self, precision: str) -> None:
        self.encoder.precision = precision

    @property
    def scoring(self) -> str:
        """For the protocol beside a score."""
        how = "from its covariance" if self.approximate else "exact"
        weight = self.inference_weight
        return f"{weight:g} · ranks of {len(self.corpus):,} sentences ({how}) + {1 - weight:g} · cosine"

    def encode(self, sentences: str | Sequence[str], **options: Any) -> Vectors:
        """The encoder's vectors; what makes two of them alike is `similarity`, not their cosine alone."""
        return self.encoder.encode(sentences, **options)

    def pair_scores(self, first: Vectors, second: Vectors) -> NDArray[np.float64]:
        """Similarity of each row of `first` to the same row of `second`."""
        cosines = self.encoder.pair_scores(first, second)
        if not self.inference_weight:
            return cosines
        ranks = self._ranks.pairs(self._tensor(first), self._tensor(second)).double().cpu()
        return np.asarray(self._mixed(ranks, torch.from_numpy(cosines)), dtype=np.float64)

    def score_matrix(self, first: Vectors, second: Vectors) -> Vectors:
        """Similarities of all rows of `first` to all rows of `second` (first, second)."""
        left, right = self._tensor(first), self._tensor(second)
        scores = left @ right.T
        if self.inference_weight:
            scores = self._mixed(self._ranks.similarities(left, right), scores)
        found: Vectors = scores.cpu().numpy()
        return found

    def _mixed(self, ranks: Tensor, cosines: Tensor) -> Tensor:
        return self.inference_weight * ranks + (1 - self.inference_weight) * cosines

    @cached_property
    def _ranks(self) -> RankSimilarity:
        corpus = torch.from_numpy(np.array(self.corpus)).to(self.device)
        return CorpusCovariance(corpus) if self.approximate else CorpusRanks(corpus)

    def _tensor(self, vectors: Vectors) -> Tensor:
        return torch.from_numpy(unit_rows(vectors)).to(self.device)


def load_model(name: str | Path, *, device: str | torch.device | None = None, **options: Any) -> Encoder | RankEncoder:
    """A saved RankEncoder as such, any other model as an Encoder.

    Args:
        name: A folder, the name of a bundled model, or a name on the hub.
        device: Where it computes; None takes a GPU if there is one.
        options: Further arguments of `Encoder.load`.

    Examples:
        >>> import nearer
        >>> model = nearer.load_model("wiki-mini", pooling="mean")
        >>> round(model.similarity("It rains.", "It rains."), 4)
        1.0
    """
    if (chosen_folder(name, options) / FACTS_FILE).exists():
        return RankEncoder.load(name, device=device, **options)
    return Encoder.load(name, device=device, **options)


def chosen_folder(name: str | Path, options: Mapping[str, Any]) -> Path:
    """Where `Encoder.load` finds it with these options."""
    return model_folder(
        name,
        revision=options.get("revision"),
        remote_code=options.get("trust_remote_code", False),
        allow_pickle=options.get("allow_pickle", False),
    )
