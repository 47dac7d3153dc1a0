"""The configuration of a run, as `config.yaml` in its folder has it: everything that it needs to go on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml
from pydantic import ConfigDict, Field

from nearer.errors import SettingError, TrainingError
from nearer.storage.sealed import read_sealed, sealed_yaml
from nearer.storage.whole import write_whole
from nearer.typed_files import FileFacts

CONFIG, LOCK = "config.yaml", ".lock"


class RunConfig(FileFacts):
    """What a run was started with.

    recipe: its name. settings: the loop's and the method's, as they are used. corpus, columns, reading: the text, and
    how it is read. data: the folder of the published sets. libraries: versions at the start. numerics: how it computes.
    tokens: the token store of its text. learns_from: digests of teachers and the like, by name.
    """

    model_config = ConfigDict(extra="allow")  # what a later version notes is kept

    recipe: str
    settings: dict[str, Any]
    corpus: str
    columns: list[str] | None = None
    reading: dict[str, Any] = Field(default_factory=dict)
    data: str | None = None
    libraries: dict[str, str] = Field(default_factory=dict)
    numerics: Any = None
    tokens: str | None = None
    learns_from: dict[str, str] = Field(default_factory=dict)

    @classmethod
    def read(cls, folder: Path) -> RunConfig:
        path = folder / CONFIG
        if not path.exists():
            raise SettingError(f"{folder}: is not the folder of a run (no {CONFIG}).")
        config = read_sealed(path, cls, error=SettingError, mend="start the run anew, with another folder")
        if config.settings.get("teachers") and "teacher_max_length" not in config.settings:
            # what teachers read before it could be set
            return config.changed(settings={**config.settings, "teacher_max_length": "whole"})
        return config

    def changed(self, **values: Any) -> RunConfig:
        return self.model_copy(update=values)

    def write(self, folder: Path) -> None:
        values = {name: value for name, value in self.model_dump().items() if name != "numerics" or value is not None}
        try:
            write_whole(folder / CONFIG, sealed_yaml(yaml.safe_dump(values, sort_keys=False, allow_unicode=True)))
        except OSError as error:
            raise TrainingError(f"{folder}: cannot be written ({error.strerror}).") from None
