"""nearer: turn unlabelled sentences into a sentence encoder that ranks.

    import nearer

    encoder = nearer.Encoder.load("all-MiniLM-L6-v2")
    encoder.rank("a man is eating", ["someone has lunch", "it rains"])
    nearer.evaluate(encoder, ["sts"], data="data/senteval").average

Names are loaded when they are first used, so `import nearer` costs nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from nearer.versions import VERSION

__version__ = VERSION

if TYPE_CHECKING:
    from nearer.adaptation.adapt import adapt
    from nearer.encoder import Encoder, EncoderSettings, Ranked
    from nearer.errors import InputError, ModelError, NearerError, SettingError
    from nearer.evaluation import Results
    from nearer.evaluation.evaluate import evaluate
    from nearer.leagues.league import league
    from nearer.search import Hit, SearchIndex, SearchSetup
    from nearer.sweeps.sweep import sweep
    from nearer.teachers import CrossEncoder, RankEncoder, load_model
    from nearer.text import (
        DebiasedSample,
        Pair,
        RankingList,
        Triplet,
        read_debiased,
        read_pairs,
        read_ranking_lists,
        read_sentences,
        read_triplets,
    )
    from nearer.training import TrainedModel, resume, train

_HOMES = {
    "nearer.adaptation.adapt": ("adapt",),
    "nearer.encoder": ("Encoder", "EncoderSettings", "Ranked"),
    "nearer.errors": ("InputError", "ModelError", "NearerError", "SettingError"),
    "nearer.evaluation": ("Results", "evaluate"),
    "nearer.leagues.league": ("league",),
    "nearer.search": ("Hit", "SearchIndex", "SearchSetup"),
    "nearer.teachers": ("CrossEncoder", "RankEncoder", "load_model"),
    "nearer.training": ("TrainedModel", "resume", "train"),
    "nearer.sweeps.sweep": ("sweep",),
    "nearer.text": (
        "DebiasedSample",
        "Pair",
        "RankingList",
        "Triplet",
        "read_debiased",
        "read_pairs",
        "read_ranking_lists",
        "read_sentences",
        "read_triplets",
    ),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = [
    "CrossEncoder",
    "DebiasedSample",
    "Encoder",
    "EncoderSettings",
    "Hit",
    "InputError",
    "ModelError",
    "NearerError",
    "Pair",
    "RankEncoder",
    "Ranked",
    "RankingList",
    "Results",
    "SearchIndex",
    "SearchSetup",
    "SettingError",
    "TrainedModel",
    "Triplet",
    "adapt",
    "evaluate",
    "league",
    "load_model",
    "read_debiased",
    "read_pairs",
    "read_ranking_lists",
    "read_sentences",
    "read_triplets",
    "resume",
    "sweep",
    "train",
]


def __getattr__(name: str) -> Any:
    if name in _HOME_OF:
        return getattr(importlib.import_module(_HOME_OF[name]), name)
    raise AttributeError(f"module 'nearer' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
