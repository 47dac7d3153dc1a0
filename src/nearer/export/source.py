"""From what was named to what is exported: a model, and the run that made it where that can be told.

What leaves the machine names files without the folders that they lie in.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nearer.baselines.static_words import FACTS_FILE as STATIC_WORDS
from nearer.encoder import Encoder
from nearer.encoder.onnx_encoder import FACTS_FILE as ONNX
from nearer.errors import ModelError
from nearer.report.subjects import MODEL_FILES
from nearer.runs.folder import MODEL, Run, is_run, read_run
from nearer.teachers import RankEncoder, load_model


@dataclass(frozen=True)
class Source:
    """named: by the user; model: on the CPU; run: its run, None where nothing is known of one."""

    named: str
    model: Encoder | RankEncoder
    run: Run | None

    @property
    def encoder(self) -> Encoder:
        return self.model.encoder if isinstance(self.model, RankEncoder) else self.model


def load_source(named: str | Path, **options: Any) -> Source:
    """A model by folder or name, or the folder of a finished run. options: of `Encoder.load`."""
    folder = Path(named).expanduser()
    run = None
    if folder.is_dir() and is_run(folder):
        run = read_run(folder)
        if not run.finished:
            raise ModelError(f"{named}: the run is not finished; go on with: nearer train --resume {named}")
        folder = folder / MODEL
    elif folder.is_dir() and folder.name == MODEL and is_run(folder.resolve().parent):
        run = read_run(folder.resolve().parent)
    for file, what in ((STATIC_WORDS, "made of static words: there is no network"), (ONNX, "an ONNX export already")):
        if (folder / file).exists():
            raise ModelError(f"{named}: is {what}; name a model with a transformer in it.")
    if folder.is_dir() and not any((folder / file).exists() for file in MODEL_FILES):
        raise ModelError(f"{named}: is neither a run (no config.yaml) nor a model (no config.json or modules.json).")
    model = load_model(folder if folder.is_dir() else named, device="cpu", **options)
    return Source(str(named), model, run)


def without_folders(value: Any) -> Any:
    """The same facts, with paths of this machine cut down to their last part. Names on the hub stay as they are."""
    if isinstance(value, dict):
        return {name: without_folders(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [without_folders(part) for part in value]
    return Path(value).name if isinstance(value, str) and is_local(value) else value


def is_local(name: str) -> bool:
    """Whether this is a path of this machine, not a name that means something elsewhere."""
    if "\n" in name or name.startswith("hf:"):
        return False
    if name.startswith(("/", "~", "./", "../")) or name in (".", ".."):
        return True
    return name.count("/") > 0 and Path(name).exists()
