"""Options that many commands share, each bundle of them as one parameter: how a model is loaded, how a text is read."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import asdict, dataclass, fields, is_dataclass
from pathlib import Path
from typing import Any, get_type_hints

from nearer.cli import options
from nearer.cli.output import show_report
from nearer.errors import InputError, ModelError
from nearer.text.reading import MAX_CHARACTERS


def with_bundles(command: Callable[..., None]) -> Callable[..., None]:
    """The command as Typer needs it: a parameter whose type is a bundle stands for all options of the bundle."""
    types = get_type_hints(command, include_extras=True)
    bundles: dict[str, Any] = {}
    parameters: list[inspect.Parameter] = []
    for given in inspect.signature(command).parameters.values():
        kind = types[given.name]
        if not is_dataclass(kind):
            parameters.append(_parameter(given.name, kind, given.default))
            continue
        bundles[given.name] = kind
        its_types = get_type_hints(kind, include_extras=True)
        parameters += [_parameter(field.name, its_types[field.name], field.default) for field in fields(kind)]

    def run(**values: Any) -> None:
        for name, kind in bundles.items():
            values[name] = kind(**{field.name: values.pop(field.name) for field in fields(kind)})
        command(**values)

    functools.update_wrapper(run, command)
    del run.__wrapped__  # type: ignore[attr-defined]  # whose signature Typer would take
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return run


def _parameter(name: str, kind: Any, default: Any) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=kind)


@dataclass(frozen=True)
class Loading:
    """How a model is loaded."""

    pooling: options.Pooling = None
    max_length: options.MaxLength = None
    text_normalisation: options.Normalisation = None
    template: options.Template = None
    pooler_as_head: options.PoolerAsHead = False
    device: options.Device = None
    trust_remote_code: options.RemoteCode = False
    allow_pickle: options.AllowPickle = False

    def arguments(self, **others: Any) -> dict[str, Any]:
        """As `Encoder.load` and `load_scorer` take them. others: added, or in the place of these."""
        return {**asdict(self), **others}


@dataclass(frozen=True)
class TextReading:
    """How a text is read."""

    columns: options.Columns = None
    encoding: options.Encoding = "utf-8"
    max_characters: options.MaxCharacters = MAX_CHARACTERS
    allow_dropped: options.AllowDropped = False

    def arguments(self) -> dict[str, Any]:
        """As `read_sentences` and `ReadOptions` take them."""
        return options.read_options(self.columns, self.encoding, self.max_characters, self.allow_dropped)


# Defaults of the commands' parameters
LOADING, TEXT_READING = Loading(), TextReading()


def sample_corpus(corpus: str, size: int, seed: int) -> list[str]:
    """So many different sentences of a text, chosen by the seed; what was dropped of the text is shown."""
    from nearer.teachers.rank_vectors import sample_sentences
    from nearer.text import read_sentences

    reading = read_sentences(corpus)
    sentences = sample_sentences(reading, size, seed)
    show_report(reading.report)
    reading.report.check_kept(told=True)
    return sentences


def check_new_model(out: Path) -> None:
    if out.exists():
        raise ModelError(f"{out}: is there already; choose another folder.")


def check_json_file(file: Path | None) -> None:
    """That a file can be written there: a wrong path should not cost the loading of a model."""
    if file is not None and not file.parent.is_dir():
        raise InputError(f"{file}: the folder {file.parent} does not exist.")
