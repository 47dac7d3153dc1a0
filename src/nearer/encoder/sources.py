"""From a model's name to a folder: a folder, a GGUF file, a bundled model, the user's models, or the Hugging Face hub.

The folder of a run stands for the model in it, for every command and every call that takes a model.
"""

from __future__ import annotations

import os
from fnmatch import fnmatch
from pathlib import Path

from nearer.encoder.gguf import unpacked_copy
from nearer.encoder.layout_files import ModuleFacts, read_facts
from nearer.encoder.pickles import PICKLE_MEND, PICKLES, converted_copy, pickled_folders
from nearer.errors import ModelError, first_line

BUNDLED = Path(__file__).parent.parent / "bundled"
BUNDLED_MODELS = ("wiki-mini",)
MODELS_VARIABLE = "NEARER_MODELS"
RUN_FILE, RUN_MODEL = "config.yaml", "model"  # what makes a folder that of a run, and where its model is
# No weights of other frameworks, and nothing pickled unless there is nothing else and the user asks for it.
FETCHED = ["*.json", "*.txt", "*.model", "*.spm", "*.jinja", "*.safetensors", "*.npy"]
IGNORED = ["onnx/*", "openvino/*", "*.bin", "*.h5", "*.msgpack", "*.ot"]
# The modules of sentence-transformers that have weights.
WITH_WEIGHTS = ("Transformer", "StaticEmbedding", "WeightedLayerPooling", "Dense", "LayerNorm")


def model_folder(
    name: str | Path, *, revision: str | None = None, remote_code: bool = False, allow_pickle: bool = False
) -> Path:
    """The folder that holds the model, with its weights as safetensors; hub names are fetched.

    allow_pickle: weights that are there as pickles only are fetched too, and made into safetensors in the cache.
    """
    folder, repository = _found(name, revision, remote_code)
    if repository is not None:
        _fetch_pickles(repository, revision, folder, allow_pickle)
    return converted_copy(folder) if allow_pickle and pickled_folders(folder) else folder


def pickled_source(name: str | Path) -> Path:
    """The folder that holds the model, with the pickles that are all there is of its weights."""
    folder, repository = _found(name, None, False)
    if repository is not None:
        _fetch_pickles(repository, None, folder, allowed=True)
    return folder


def find_folder(name: str | Path) -> Path:
    """The folder that holds the model, whatever its weights are."""
    return _found(name, None, False)[0]


def folder_at_hand(name: str) -> Path | None:
    """The folder of a model that is on this machine: in a models folder or the hub's cache; nothing is fetched."""
    from huggingface_hub import snapshot_download

    for root in _models_folders():
        if (root / name).is_dir():
            return root / name
    for candidate in _hub_names(name):
        try:
            return Path(snapshot_download(candidate, local_files_only=True))
        except Exception:  # it is not there, whatever the hub's client calls that
            continue
    return None


def _models_folders() -> list[Path]:
    return [Path(root).expanduser() for root in os.environ.get(MODELS_VARIABLE, "").split(os.pathsep) if root]


def _hub_names(name: str) -> list[str]:
    """sentence-transformers' own models go by their short names too."""
    return [name] if "/" in name else [f"sentence-transformers/{name}", name]


def _found(name: str | Path, revision: str | None, remote_code: bool) -> tuple[Path, str | None]:
    """The folder, and its name on the hub if it comes from there."""
    path = Path(name).expanduser()
    if path.is_dir():
        return _model_within(path, name), None
    if path.is_file() and path.suffix != ".gguf":
        raise ModelError(f"{name}: is a file, a model is a folder (or a name on the Hugging Face hub).")
    if path.is_file():
        return unpacked_copy(path), None
    name = str(name)
    if name in BUNDLED_MODELS:
        return BUNDLED / name, None
    for root in _models_folders():
        if (root / name).is_dir():
            return _model_within(root / name, name), None
        if (file := root / f"{name.removesuffix('.gguf')}.gguf").is_file():
            return unpacked_copy(file), None
    if name.endswith(".gguf"):
        raise ModelError(f"{name}: no such file.")
    if name.startswith((".", "/", "~")) or name.count("/") > 1 or not name:
        raise ModelError(f"{name}: no such folder.")
    return _fetched(name, revision, remote_code)


def _model_within(folder: Path, name: str | Path) -> Path:
    """The model of a run; any other folder as it is."""
    if any((folder / file).exists() for file in ("config.json", "modules.json")):
        return folder
    if (folder / RUN_FILE).is_file():
        if (folder / RUN_MODEL).is_dir():
            return folder / RUN_MODEL
        raise ModelError(
            f"{name}: is a run that is not finished, it has no {RUN_MODEL}/ yet; go on with: "
            f"nearer train --resume {name}"
        )
    runs = sorted(file.parent for file in (*folder.glob(f"*/{RUN_FILE}"), *folder.glob(f"*/*/{RUN_FILE}")))
    if runs:
        raise ModelError(f"{name}: holds {len(runs)} runs; name one of them, such as {runs[0]}.")
    return folder


def _fetched(name: str, revision: str | None, remote_code: bool) -> tuple[Path, str]:
    from huggingface_hub import snapshot_download

    patterns = [*FETCHED, "*.py"] if remote_code else FETCHED
    reasons = []
    for candidate in _hub_names(name):
        try:
            folder = snapshot_download(candidate, revision=revision, allow_patterns=patterns, ignore_patterns=IGNORED)
            return Path(folder), candidate
        except Exception as error:  # the hub client's, the network's and the file system's errors alike
            reasons.append(first_line(error))
    raise ModelError(
        f"{name}: neither a folder here nor to be had from the Hugging Face hub ({reasons[-1]}). "
        f"Bundled: {', '.join(BUNDLED_MODELS)}; other models by name from the folder in ${MODELS_VARIABLE}."
    )


def _fetch_pickles(repository: str, revision: str | None, folder: Path, allowed: bool) -> None:
    """Fetch the pickles of the parts that the hub has no safetensors of, or say that they are there."""
    from huggingface_hub import HfApi, snapshot_download

    patterns = [f"{part}/{PICKLES}".removeprefix("./") for part in _without_weights(folder)]
    if not patterns:
        return
    if allowed:
        try:
            snapshot_download(repository, revision=revision, allow_patterns=patterns)
        except Exception as error:
            raise ModelError(
                f"{repository}: its weights are not to be had from the Hugging Face hub ({first_line(error)})."
            ) from error
        return
    try:
        files = HfApi().list_repo_files(repository, revision=revision)
    except Exception:  # without a connection: what is missing is then said by who needs it
        return
    pickled = [file for file in files if any(fnmatch(file, pattern) for pattern in patterns)]
    if pickled:
        raise ModelError(f"{repository}: {pickled[0]} is all the hub has, {PICKLE_MEND}.", argument="allow_pickle")


def _without_weights(folder: Path) -> list[str]:
    """The parts of a model that should have weights and have none as safetensors: `.` and folders of modules."""
    try:
        if (folder / "modules.json").exists():
            modules = read_facts(folder / "modules.json", list[ModuleFacts])
            parts = [one.path or "." for one in modules if one.type.rpartition(".")[2] in WITH_WEIGHTS]
        else:
            parts = ["."] if (folder / "config.json").exists() else []
    except ModelError:
        return []  # whoever reads the modules will say so
    return [part for part in parts if not any((folder / part).glob("*.safetensors"))]
