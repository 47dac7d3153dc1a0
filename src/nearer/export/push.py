"""A model as a folder of sentence-transformers with its card, ready to be handed on; and such a folder to the Hugging
Face hub, when its owner asks for it. The token comes from the environment or the login."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nearer.encoder.layout import MODULES_FILE
from nearer.encoder.onnx_encoder import FACTS_FILE
from nearer.errors import InputError, ModelError, NearerError, SettingError, first_line
from nearer.export.card import Told, model_card
from nearer.export.source import Source, without_folders
from nearer.runs.folder import ScoreFile, is_run, read_scores
from nearer.storage.whole import whole_folder

LEFT_OUT = [".*", "**/.*", "*/__pycache__/*"]  # besides what the hub's client leaves out by itself
REPOSITORY = re.compile(r"[\w.-]+/[\w.-]+")
MEND = "set HF_TOKEN to a token that may write, or log in with: hf auth login"


class HubError(NearerError, RuntimeError):
    """The hub cannot be reached, or refuses."""


@dataclass(frozen=True)
class Upload:
    """What would go where: files by their path in the folder, with their sizes."""

    folder: Path
    repository: str
    files: dict[str, int]

    @property
    def has_card(self) -> bool:
        return CARD in self.files

    def __str__(self) -> str:
        lines = [f"{size:>14,}  {path}" for path, size in self.files.items()]
        return "\n".join([*lines, f"{sum(self.files.values()):>14,}  bytes in {len(self.files)} files"])


def prepare_upload(folder: str | Path, repository: str) -> Upload:
    """The files of a model's folder, as they would be uploaded."""
    from huggingface_hub.utils import DEFAULT_IGNORE_PATTERNS, filter_repo_objects  # type: ignore[attr-defined]

    if not REPOSITORY.fullmatch(repository):
        raise SettingError(f"REPO: {repository!r} is not of the form owner/name.")
    model = Path(folder).expanduser()
    if not model.is_dir():
        raise ModelError(f"{folder}: no such folder; a folder that `nearer export folder` or `onnx` wrote is needed.")
    if is_run(model):
        raise ModelError(f"{folder}: is a run; first write its model with: nearer export folder {folder} --out DIR")
    if not (model / MODULES_FILE).exists() and not (model / FACTS_FILE).exists():
        raise ModelError(f"{folder}: is not an exported model; first: nearer export folder {folder} --out DIR")
    found = {path.relative_to(model).as_posix(): path.stat().st_size for path in model.rglob("*") if path.is_file()}
    kept = filter_repo_objects(sorted(found), ignore_patterns=[*LEFT_OUT, *DEFAULT_IGNORE_PATTERNS])
    return Upload(model, repository, {path: found[path] for path in kept})


def push(upload: Upload, *, private: bool = False, endpoint: str | None = None) -> str:
    """Upload; the address of what was written. A repository that is not there yet is made.

    private: of a new repository; one that is there stays as it is. endpoint: another hub than the public one.
    """
    from huggingface_hub import HfApi, get_token

    if get_token() is None:
        raise HubError(f"{upload.repository}: no token for the hub; {MEND}.")
    hub: Any = HfApi(endpoint=endpoint, library_name="nearer")
    try:
        hub.create_repo(upload.repository, private=private or None, repo_type="model", exist_ok=True)
        written = hub.upload_folder(
            repo_id=upload.repository,
            folder_path=upload.folder,
            repo_type="model",
            commit_message="Model exported by nearer",
            ignore_patterns=list(LEFT_OUT),
        )
    except Exception as error:  # the hub client's, the network's and the file system's errors alike
        raise HubError(f"{upload.repository}: {_reason(error)}") from error
    return str(written.commit_url)


def _reason(error: Exception) -> str:
    from huggingface_hub.errors import HfHubHTTPError, OfflineModeIsEnabled

    if isinstance(error, OfflineModeIsEnabled):
        return "the hub is not asked while HF_HUB_OFFLINE is set; unset it to upload."
    if isinstance(error, HfHubHTTPError):
        status = error.response.status_code
        if status in (401, 403):
            return f"the hub refuses ({status}): the token may not write there; {MEND}."
        return f"the hub answers {status} ({first_line(error)})."
    return (
        f"cannot be uploaded ({type(error).__name__}: {first_line(error)}); what was uploaded is not lost, try again."
    )


CARD = "README.md"
MEASURED_WITH = ("pooling", "max_length", "text_normalisation")


def export_folder(
    source: Source,
    out: str | Path,
    *,
    name: str | None = None,
    languages: Sequence[str] = (),
    licence: str | None = None,
    scores: str | Path | None = None,
) -> Path:
    """Write a model with a filled-in card; `SentenceTransformer(out)` and `nearer.load_model(out)` load it.

    name: what the card calls it, by default the folder's name. scores: a file of `nearer evaluate --json`, by default
    the run's own. Paths of this machine that the model notes are cut down to the names of files.
    """
    path = Path(out)
    told = Told(name or path.name, tuple(languages), licence)
    found = source.run.scores if scores is None and source.run is not None else None
    if scores is not None:
        found = read_scores(Path(scores))
        _check_scores(found, source, scores)
    card = model_card(source, told, found)
    encoder = source.encoder
    noted = encoder.provenance
    with whole_folder(path) as built:
        try:
            encoder.provenance = without_folders(noted)
            source.model.save(built)
        finally:
            encoder.provenance = noted
        (built / CARD).write_text(card, encoding="utf-8")
    return path


def _check_scores(scores: ScoreFile, source: Source, path: str | Path) -> None:
    """That they can be this model's: what was measured another way would stand on the card as its own."""
    for setting in MEASURED_WITH:
        measured, own = scores.protocol.get(setting), getattr(source.encoder.settings, setting)
        if measured is not None and measured != own:
            raise InputError(
                f"{path}: was measured with {setting} {measured}, the model has {own}; evaluate the model anew."
            )
