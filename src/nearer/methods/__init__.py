"""The papers' methods, one file each, wiring the parts below them. They know nothing of the loop's mechanics."""

from collections.abc import Callable
from typing import Any

from pydantic import BaseModel

from nearer.methods.contract import Batch, Inputs, Losses, Method, View
from nearer.methods.debcse import DebCSE, DebCSESettings
from nearer.methods.rankcse import RankCSE, RankCSESettings
from nearer.methods.rankencoder import RankEncoderSettings, RankEncoderTraining
from nearer.methods.refine import Refinement, RefinementSettings
from nearer.methods.simcse import SimCSE, SimCSESettings

METHODS: dict[str, tuple[Callable[[Any], Method], type[BaseModel]]] = {
    "simcse": (SimCSE, SimCSESettings),
    "rankcse": (RankCSE, RankCSESettings),
    "rankencoder": (RankEncoderTraining, RankEncoderSettings),
    "debcse": (DebCSE, DebCSESettings),
    "refine": (Refinement, RefinementSettings),
}

__all__ = [
    "METHODS",
    "Batch",
    "DebCSE",
    "DebCSESettings",
    "Inputs",
    "Losses",
    "Method",
    "RankCSE",
    "RankCSESettings",
    "RankEncoderSettings",
    "RankEncoderTraining",
    "Refinement",
    "RefinementSettings",
    "SimCSE",
    "SimCSESettings",
    "View",
]
