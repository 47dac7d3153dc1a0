"""Models and data: the bundled model asked for a known vector, the user's folders of models (`$NEARER_MODELS`), a
folder of published sets, the cache (can it be written, what is in it, what was never finished), and on request the
Hugging Face hub."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

from nearer.doctor.findings import Finding, State
from nearer.errors import NearerError, first_line
from nearer.extras import reinstall_command
from nearer.storage.cache import CACHE_VARIABLE, cache_folder
from nearer.storage.sealed import read_sealed_json
from nearer.units import as_bytes

BUNDLED, POOLING = "wiki-mini", "mean"
QUERY = "Somebody has a meal."
NEAREST, OTHERS = "A man is eating lunch.", ("It rains.", "The train leaves at noon.")
# the first numbers of NEAREST's unit vector in float32; builds of torch differ in the sixth decimal
KNOWN = (-0.0732, 0.0584, 0.0508, 0.0378, 0.0153, -0.0600, -0.0098, 0.0129)
TOLERANCE = 1e-3
DAMAGED = f"the model's files are damaged; restore src/nearer/bundled in a checkout, or: {reinstall_command()}"
MODELS_VARIABLE = "NEARER_MODELS"
STATIC_WORDS_FILE = "static_words.json"
ASKED_FOR = "sentence-transformers/all-MiniLM-L6-v2"
TIMEOUT_SECONDS = 10.0
HUB_MEND = "look at the network and HTTPS_PROXY; without the hub, put models into a folder named by NEARER_MODELS"
FETCH = "`nearer data get sts` fetches the STS sets"


def check_bundled_model() -> Iterator[Finding]:
    """A known vector on the CPU, and a ranking on the device that commands would take."""
    import torch

    from nearer.encoder import Encoder

    encoder = Encoder.load(BUNDLED, pooling=POOLING, device="cpu")
    vector = encoder.encode([NEAREST], normalize=True)[0]
    off = max(abs(float(found) - known) for found, known in zip(vector, KNOWN, strict=False))
    if not off <= TOLERANCE:  # also where it is no number
        yield Finding("bundled model", State.broken, f"{BUNDLED}: its vectors are off by {off:.2g}", DAMAGED)
        return
    device = "cuda" if torch.cuda.is_available() else "cpu"
    ranked = encoder.to(device).rank(QUERY, [OTHERS[0], NEAREST, OTHERS[1]])
    if ranked[0].sentence != NEAREST:
        mend = "use the CPU (--device cpu), and look at the GPU's driver" if device == "cuda" else DAMAGED
        yield Finding("bundled model", State.broken, f"{BUNDLED} ranks wrongly on {device}", mend)
        return
    found = f"{BUNDLED} gives its known vector; {QUERY!r} is nearest to {NEAREST!r} ({ranked[0].score:.2f}, {device})"
    yield Finding("bundled model", State.good, found)


def check_model_folders() -> Iterator[Finding]:
    roots = [Path(root).expanduser() for root in os.environ.get(MODELS_VARIABLE, "").split(os.pathsep) if root]
    if not roots:
        yield Finding("models", State.absent, f"{MODELS_VARIABLE} names no folder; models come by path or from the hub")
    for root in roots:
        if root.is_dir():
            yield from _look_into(root)
        else:
            mend = f"take it out of {MODELS_VARIABLE}, or make the folder"
            yield Finding("models", State.doubtful, f"{root}: no such folder", mend)


def _look_into(root: Path) -> Iterator[Finding]:
    """One finding about what can be used, and one for each model that cannot."""
    models = []
    for path in sorted(root.iterdir()):
        if path.suffix == ".gguf" or (path / STATIC_WORDS_FILE).is_file():
            models.append(path.name)
        elif path.is_dir() and any((path / name).is_file() for name in ("config.json", "modules.json")):
            fault = _model_fault(path)
            if fault:
                mend = f"get {path.name} again: its files are incomplete or damaged"
                yield Finding("models", State.doubtful, f"{path}: {fault}", mend)
            else:
                models.append(path.name)
    if models:
        yield Finding("models", State.good, f"{root}: {', '.join(models)}")
    else:
        mend = f"put folders of models there, or take it out of {MODELS_VARIABLE}"
        yield Finding("models", State.doubtful, f"{root}: holds no model that can be used", mend)


def _model_fault(folder: Path) -> str:
    """What keeps a model from being loaded, as far as its small files tell; empty if nothing does."""
    from transformers import AutoConfig

    inner, kind = "", "Transformer"
    try:
        if (folder / "modules.json").is_file():
            first = json.loads((folder / "modules.json").read_text(encoding="utf-8"))[0]
            inner, kind = first["path"], str(first["type"]).rpartition(".")[2]
        if kind == "Router":  # whose routes have their own folders
            json.loads((folder / inner / "router_config.json").read_text(encoding="utf-8"))
            return ""
        if kind != "StaticEmbedding":
            AutoConfig.from_pretrained(folder / inner, local_files_only=True)
    except Exception as error:  # json and transformers complain in many ways
        return f"its configuration cannot be read ({first_line(error)})"
    if not any((folder / inner).glob("*.safetensors")):
        if any((folder / inner).glob("pytorch_model*.bin")):
            return "its weights are pickled: `nearer convert` makes safetensors of them"
        return "it has no weights (*.safetensors)"
    return ""


def check_hub() -> Iterator[Finding]:
    """Asks about one model. The hub is not needed where models and data lie on the disk, so it is never an error."""
    from huggingface_hub import HfApi
    from huggingface_hub.errors import OfflineModeIsEnabled

    endpoint = os.environ.get("HF_ENDPOINT")
    started = time.perf_counter()
    try:
        HfApi(endpoint=endpoint).model_info(ASKED_FOR, timeout=TIMEOUT_SECONDS)
    except OfflineModeIsEnabled:
        yield Finding("hub", State.doubtful, "HF_HUB_OFFLINE keeps it from being asked", "unset HF_HUB_OFFLINE")
        return
    except Exception as error:  # the network's and the client's errors alike
        yield Finding("hub", State.doubtful, f"{endpoint or 'huggingface.co'}: {type(error).__name__}", HUB_MEND)
        return
    seconds = time.perf_counter() - started
    yield Finding("hub", State.good, f"{endpoint or 'huggingface.co'} answers in {1000 * seconds:.0f} ms")


def check_data_folder(folder: Path) -> Iterator[Finding]:
    """One finding a kind of set, and one for each that is damaged; a folder without any is an error."""
    from nearer.evaluation.reranking_data import FOLDERS, RERANKING
    from nearer.evaluation.sts_sets import TASKS
    from nearer.evaluation.transfer_data import TRANSFER

    if not folder.is_dir():
        yield Finding("data", State.broken, f"{folder}: no such folder", f"name another with --data; {FETCH}")
        return
    # those that are not here would be fetched
    here = [
        name for name, known in RERANKING.items() if any((folder / below / known.file).is_file() for below in FOLDERS)
    ]
    findings = [
        *_check_sets("STS", TASKS, folder, f"{FETCH}; SentEval's or the raw layout is read too"),
        *_check_sets("transfer", TRANSFER, folder, "name the folder in which SentEval's MR, CR … lie"),
        *_check_sets("reranking", here, folder, ""),
    ]
    if all(finding.state is State.absent for finding in findings):
        yield Finding("data", State.broken, f"{folder}: holds none of the published sets", f"name another; {FETCH}")
    else:
        yield from findings


def _check_sets(kind: str, names: Iterable[str], folder: Path, mend: str) -> Iterator[Finding]:
    from nearer.evaluation import load_tasks
    from nearer.evaluation.sts_data import MissingData

    title = f"{kind} sets"
    complete, missing, damaged = [], [], 0
    for name in names:
        try:
            load_tasks([name], folder)
            complete.append(name)
        except MissingData:
            missing.append(name)
        except NearerError as error:
            damaged += 1
            yield Finding(title, State.broken, f"{name}: {first_line(error)}", f"get {name} again, or leave it out")
    if not complete:
        if not damaged:
            yield Finding(title, State.absent, f"none in {folder}")
    elif missing:
        found = f"{', '.join(complete)} complete; missing: {', '.join(missing)}"
        yield Finding(title, State.doubtful, found, mend)
    else:
        yield Finding(title, State.good, f"{', '.join(complete)} complete")


LITTLE_SPACE = 2 * 2**30
KEY_BYTES = 16  # of a vector store's keys


def check_cache() -> Iterator[Finding]:
    """Where it is, whether a file can be written there, and how much it holds."""
    root = cache_folder("tokens").parent
    try:
        with tempfile.TemporaryFile(dir=root) as file:
            file.write(b"nearer")
    except OSError as error:
        mend = f"name a folder that can be written: export {CACHE_VARIABLE}=FOLDER"
        yield Finding("cache", State.broken, f"{root}: cannot be written ({error.strerror})", mend)
        return
    yield Finding("cache", State.good, f"{root}: {as_bytes(_size(root))}")


def check_token_stores() -> Iterator[Finding]:
    """Stores that are whole, damaged ones, and what builds that were killed have left."""
    from filelock import FileLock, Timeout

    from nearer.text.token_store import TokenStore

    root = cache_folder("tokens")
    whole, damaged, left, building = [], [], [], []
    for folder in sorted(path for path in root.iterdir() if path.is_dir()):
        if folder.name.endswith(".unfinished"):
            try:
                with FileLock(root / f"{folder.name[1:].partition('-')[0]}.lock", timeout=0):
                    left.append(folder)
            except Timeout:
                building.append(folder)
            continue
        try:
            TokenStore(folder)
            whole.append(folder)
        except (OSError, ValueError, KeyError):
            damaged.append(folder)
    found = f"{len(whole)} whole, {as_bytes(sum(map(_size, whole)))}"
    found += f"; {len(building)} being built" if building else ""
    if damaged:
        mend = f"nothing to be done: built anew when they are needed; or delete {_listed(damaged)}"
        yield Finding("token stores", State.doubtful, f"{len(damaged)} damaged; {found}", mend)
    if left:
        size = as_bytes(sum(map(_size, left)))
        mend = f"delete what an ended process left: rm -r {_listed(left)}"
        yield Finding("token stores", State.doubtful, f"{len(left)} unfinished, {size}; {found}", mend)
    if not damaged and not left:
        yield Finding("token stores", State.good, found)


def check_vector_stores() -> Iterator[Finding]:
    """Vectors of teachers. One without a finished corpus was interrupted, and goes on when it is asked for again."""
    root = cache_folder("vectors")
    whole = []
    faulty = False
    for folder in sorted(path for path in root.iterdir() if path.is_dir()):
        if not (folder / "model.json").exists():
            continue
        facts = read_sealed_json(folder / "model.json", f"delete {folder}")
        keys, vectors = (_length(folder / name) for name in ("keys.bin", "vectors.bin"))
        rows = keys // KEY_BYTES
        if vectors < rows * 2 * facts["dimension"]:  # float16
            faulty = True
            mend = f"nothing to be done: the lost ones are computed anew; or delete {folder}"
            yield Finding("vector stores", State.doubtful, f"{facts['model']}: vectors are lost", mend)
        elif not any((folder / "rows").glob("[!.]*")):
            faulty = True
            mend = f"give the same command again to go on, or delete {folder}"
            yield Finding("vector stores", State.doubtful, f"{facts['model']}: interrupted after {rows:,}", mend)
        else:
            whole.append(f"{facts['model']} {rows:,}")
    if not faulty:
        yield Finding("vector stores", State.good, ", ".join(whole) if whole else "none yet")


def check_disk() -> Iterator[Finding]:
    """Space where the cache is, and where runs go unless they are told otherwise."""
    roots = {"the cache": cache_folder("tokens"), "this folder": Path.cwd()}
    free = {name: shutil.disk_usage(path).free for name, path in roots.items()}
    found = ", ".join(f"{as_bytes(size)} free for {name}" for name, size in free.items())
    if min(free.values()) < LITTLE_SPACE:
        mend = f"make room, or name folders elsewhere: {CACHE_VARIABLE} for the cache, --out for runs"
        yield Finding("disk", State.doubtful, found, mend)
    else:
        yield Finding("disk", State.good, found)


def _listed(folders: list[Path]) -> str:
    return " ".join(map(str, folders[:3])) + (f" and {len(folders) - 3} more" if len(folders) > 3 else "")


def _size(folder: Path) -> int:
    return sum(_length(path) for path in folder.rglob("*") if not path.is_symlink())


def _length(path: Path) -> int:
    try:
        return path.stat().st_size if path.is_file() else 0
    except OSError:  # gone since it was listed
        return 0
