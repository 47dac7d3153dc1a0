"""The models of a run: loaded, called by the names that figures show, and looked at beside the text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from nearer.adaptation.tournament import BASE, FASTER, LISTS, PAIRS, REFIT
from nearer.encoder import Encoder
from nearer.errors import PoolingError, SettingError
from nearer.search.fusion import LEXICAL, RERANKER
from nearer.teachers import CrossEncoder
from nearer.teachers.teacher import teacher_precision

# names of the run's own judges and students, which no teacher can have
TAKEN = (BASE, LISTS, FASTER, PAIRS, REFIT, LEXICAL, RERANKER)
UNKNOWN_SHARE = 0.05  # of the tokens, from which on a model does not know the text's script
LOOKED_AT = 200  # texts


@dataclass(frozen=True)
class Models:
    """base: to start from; teachers: by the names that figures show; cross: a judge that reads pairs, or None."""

    base: Encoder
    teachers: dict[str, Encoder]
    cross: CrossEncoder | None


def load_models(
    base: str | Path,
    teachers: Sequence[str | Path],
    judge: str | Path | None,
    device: str | None,
    pooling: str | None = None,
) -> Models:
    """pooling: of the base, which a plain checkpoint needs."""
    named = name_teachers(teachers)
    return Models(
        Encoder.load(base, pooling=pooling, device=device),
        {name: _load_teacher(path, device) for name, path in named.items()},
        None if judge is None else CrossEncoder.load(judge, device=device or "auto"),
    )


def _load_teacher(path: str | Path, device: str | None) -> Encoder:
    try:
        return Encoder.load(path, device=device)
    except PoolingError:
        raise PoolingError(
            f"teacher {path}: a plain checkpoint, which does not say how its vectors are pooled; save it with its "
            f"pooling and name that folder: nearer export folder {path} --pooling mean --out FOLDER.",
        ) from None


def name_teachers(teachers: Sequence[str | Path]) -> dict[str, str | Path]:
    """Teachers by the name that figures show: the last part of the path, or all of it, marked, if that is taken."""
    named: dict[str, str | Path] = {}
    for teacher in teachers:
        if teacher in named.values():
            raise SettingError(f"teachers: {teacher} is named twice; name it once.", argument="teacher")
        last = Path(str(teacher)).name
        named[f"{teacher} (teacher)" if last in {*TAKEN, *named} else last] = teacher
    return named


def check_language(texts: Sequence[str], models: Models) -> list[str]:
    """Remarks on models whose vocabulary does not have the text's words."""
    chosen = [texts[at] for at in range(0, len(texts), max(1, len(texts) // LOOKED_AT))][:LOOKED_AT]
    base, cross = models.base, models.cross
    remarks = []
    for name, tokenizer in ((base.name, base.tokenizer), *([(cross.name, cross.tokenizer)] if cross else [])):
        unknown = getattr(tokenizer, "unk_token_id", None)
        if unknown is None:
            continue
        ids = np.concatenate(
            [np.asarray(row) for row in tokenizer(chosen, truncation=True, max_length=256)["input_ids"]]
        )
        share = float((ids == unknown).mean())
        if share > UNKNOWN_SHARE:
            remarks.append(
                f"{name}: does not know {share:.0%} of the text's words; a model of its language would do better"
            )
    return remarks


def encode_texts(encoder: Encoder, texts: Sequence[str], *, progress: bool = False) -> NDArray[np.float32]:
    """Vectors of length 1. On a GPU encoders compute in bf16, which is several times as fast."""
    precision = teacher_precision(encoder.device)
    return encoder.encode(list(texts), normalize=True, precision=precision, progress=progress)


def count_weights(encoders: Mapping[str, Encoder], cross: CrossEncoder | None) -> dict[str, int]:
    models = {**encoders, **({} if cross is None else {RERANKER: cross.model})}
    return {name: sum(weight.numel() for weight in model.parameters()) for name, model in models.items()}
