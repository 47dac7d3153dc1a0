"""A model of ours as one that the `mteb` package evaluates.

    import mteb
    from nearer.integrations.mteb import MtebModel

    mteb.evaluate(MtebModel(Encoder.load("runs/mine/model")), mteb.get_tasks(["STSBenchmark", "AskUbuntuDupQuestions"]))

A saved folder needs none of this: `mteb.evaluate(SentenceTransformer("runs/mine/model"), …)` runs it too, by cosine.
`MtebModel` encodes each unique text once, and gives a RankEncoder its own similarity, which is no cosine. mteb keeps
results by name and revision: the revision here is a digest of all that decides a similarity, so that no other
weights' results are taken for these.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from functools import cached_property
from pathlib import PurePath
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from nearer.encoder import Encoder
from nearer.encoder.fingerprint import encoder_fingerprint
from nearer.errors import SettingError
from nearer.extras import require
from nearer.teachers.rank_encoder import RankEncoder

__all__ = ["MtebModel"]

model_meta = require("mteb.models.model_meta", "mteb", "nearer.integrations.mteb")  # not in mteb 1

Embeddings = Tensor | NDArray[Any]


class MtebModel:
    """mteb's EncoderProtocol (version 2 and later). name: how mteb calls it, `owner/name`; by default its folder's."""

    def __init__(self, model: Encoder | RankEncoder, *, name: str | None = None) -> None:
        self.model = model
        self.name = name or f"nearer/{PurePath(model.name).name or 'unnamed'}"
        if "/" not in self.name:
            raise SettingError(f"name: mteb wants owner/name, {self.name!r} has no slash.")

    def encode(
        self,
        inputs: Iterable[Mapping[str, Any]],
        *,
        task_metadata: Any,
        hf_split: str,
        hf_subset: str,
        prompt_type: Any = None,
        batch_size: int | None = None,
        show_progress_bar: bool = False,
        precision: str = "float32",
        **options: Any,
    ) -> NDArray[np.float32]:
        """Vectors (texts, dimension) of the batches' texts, with the prompt that mteb's rules choose, if any."""
        if precision != "float32":
            raise SettingError(f"precision: {precision!r} cannot be given here; set it on the model (model.precision).")
        texts = [text for batch in inputs for text in batch["text"]]
        rows = {text: row for row, text in enumerate(dict.fromkeys(texts))}
        vectors = self.model.encode(
            list(rows),
            batch_size=batch_size,
            progress=show_progress_bar,
            prompt_name=self._prompt_name(task_metadata, prompt_type),
        )
        return vectors[[rows[text] for text in texts]]

    def similarity(self, embeddings1: Embeddings, embeddings2: Embeddings) -> Tensor:
        """All pairs (first, second)."""
        return torch.from_numpy(self.model.score_matrix(_rows(embeddings1), _rows(embeddings2)))

    def similarity_pairwise(self, embeddings1: Embeddings, embeddings2: Embeddings) -> Tensor:
        """Each row of the first with the same row of the second (rows,)."""
        return torch.from_numpy(self.model.pair_scores(_rows(embeddings1), _rows(embeddings2)))

    @cached_property
    def mteb_model_meta(self) -> Any:
        encoder = self._encoder
        scoring = model_meta.ScoringFunction.COSINE if self.model is encoder else model_meta.ScoringFunction.CUSTOM
        return model_meta.ModelMeta.create_empty(
            {
                "name": self.name,
                "revision": self._revision(),
                "n_parameters": sum(parameter.numel() for parameter in encoder.parameters()),
                "max_tokens": encoder.settings.max_length,
                "embed_dim": encoder.dimension,
                "framework": ["PyTorch"],
                "similarity_fn_name": scoring,
                "use_instructions": any(encoder.settings.prompts.values()),
            }
        )

    @property
    def _encoder(self) -> Encoder:
        return self.model if isinstance(self.model, Encoder) else self.model.encoder

    def _revision(self) -> str:
        facts = [encoder_fingerprint(self._encoder), self.model.precision, self.model.scoring]
        digest = hashlib.blake2b(" ".join(facts).encode(), digest_size=16)
        if isinstance(self.model, RankEncoder):
            digest.update(np.ascontiguousarray(self.model.corpus).data)
        return digest.hexdigest()

    def _prompt_name(self, task: Any, prompt_type: Any) -> str | None:
        """The prompt for this task's name, else for its type, else for queries or documents; None: the default."""
        ending = None if prompt_type is None else str(prompt_type.value)
        names = [f"{task.name}-{ending}", task.name, f"{task.type}-{ending}", task.type, ending]
        return next((name for name in names if name in self._encoder.settings.prompts), None)


def _rows(embeddings: Embeddings) -> NDArray[np.float32]:
    """As rows of a matrix, float32; one vector is one row."""
    array = embeddings.detach().cpu().numpy() if isinstance(embeddings, Tensor) else np.asarray(embeddings)
    return np.atleast_2d(array).astype(np.float32, copy=False)
