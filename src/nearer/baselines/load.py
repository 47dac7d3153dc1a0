"""Any model by name: an encoder, a RankEncoder, an ONNX export, or a folder of static words."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from nearer.baselines.static_words import FACTS_FILE, StaticWords
from nearer.encoder import Encoder
from nearer.encoder.onnx_encoder import FACTS_FILE as ONNX_FACTS_FILE
from nearer.encoder.onnx_encoder import OnnxEncoder
from nearer.errors import SettingError
from nearer.teachers import RankEncoder, load_model
from nearer.teachers.rank_encoder import chosen_folder

HARMLESS = ("revision", "trust_remote_code", "allow_pickle")  # which say where a model is, not what


def load_scorer(
    name: str | Path, *, device: str | torch.device | None = None, precision: str = "float32", **options: Any
) -> Encoder | RankEncoder | OnnxEncoder | StaticWords:
    """As `load_model`, and ONNX exports and static words too, which are as they are: other options are refused.

    device: of encoders; the other kinds compute on the CPU. precision: what an encoder computes in; a graph and static
    words have one only.
    """
    folder = chosen_folder(name, options)
    given = [option for option, value in options.items() if value and option not in HARMLESS]
    if (folder / ONNX_FACTS_FILE).exists():
        exported = OnnxEncoder(folder)
        given += ["precision"] * (precision not in ("float32", exported.precision))
        if given:
            raise SettingError(f"{given[0]}: {name} is an ONNX export, whose graph has it fixed; export it so.")
        return exported
    if (folder / FACTS_FILE).exists():
        given += ["precision"] * (precision != "float32")
        if given:
            raise SettingError(f"{given[0]}: {name} is made of static words, which have no such setting.")
        return StaticWords.load(folder)
    model = load_model(name, device=device, **options)
    model.precision = precision
    return model
