"""Options that several commands share."""

from __future__ import annotations

import math
from enum import StrEnum
from typing import Annotated, Any

import typer

from nearer.errors import SettingError
from nearer.units import LARGEST_SEED

# One below C's largest int, see `nearer.search.tuning`
LARGEST_FAISS_SEED = 2**31 - 2


class EngineName(StrEnum):
    process = "process"
    ray = "ray"


class FormatName(StrEnum):
    jsonl = "jsonl"
    parquet = "parquet"


class PrecisionName(StrEnum):
    float32 = "float32"
    bf16 = "bf16"
    int8 = "int8"


class DtypeName(StrEnum):
    float32 = "float32"
    float16 = "float16"


def finite(value: float | None) -> float | None:
    """For options that are numbers: `nan` lies within every range, and `inf` above every lower end."""
    if value is not None and not math.isfinite(value):
        raise typer.BadParameter(f"{value} is not a finite number.")
    return value


LexicalWeight = Annotated[
    float | None,
    typer.Option(
        callback=finite,
        min=0,
        max=100,
        help="How much shared words (BM25) count beside the vectors' 1. Default: as the model or index has it, or 0.",
    ),
]
Model = Annotated[str, typer.Argument(metavar="MODEL", help="A folder, the bundled 'wiki-mini', or a hub name.")]
Pooling = Annotated[
    str | None,
    typer.Option(
        help="cls, cls_before_head, mean, first_last_mean, embedding_last_mean, last_two_mean … "
        "Needed for a plain checkpoint. Replaces the model's own pooling."
    ),
]
MaxLength = Annotated[
    int | None, typer.Option(min=3, help="Cut texts after so many tokens. Default: the model's own limit.")
]
Normalisation = Annotated[
    str | None,
    typer.Option(
        "--text-normalisation",
        help="How text is changed first: none, lowercase or full_stop. Default: the model's own.",
    ),
]
Template = Annotated[
    str | None,
    typer.Option(
        metavar="TEXT",
        help="Text around each sentence with {sentence} in it, or a name: promptbert, sncse, prompteol …",
    ),
]
PoolerAsHead = Annotated[
    bool,
    typer.Option(
        "--pooler-as-head", help="Use the checkpoint's own pooling layer (published supervised SimCSE models)."
    ),
]
Strict = Annotated[
    bool,
    typer.Option(
        "--strict",
        help="Retrieval and reranking: an empty document or query, or a judgement of a missing one, is an error.",
    ),
]
Device = Annotated[
    str | None, typer.Option(help="Where to compute: cpu, cuda, cuda:1 … Default: a GPU if there is one.")
]
RemoteCode = Annotated[bool, typer.Option("--trust-remote-code", help="Allow code that comes with the model to run.")]
AllowPickle = Annotated[
    bool,
    typer.Option("--allow-pickle", help="Read weights that exist only as pytorch_model.bin. Nothing in them is run."),
]
Route = Annotated[
    str | None, typer.Option(help="The route of a model with a Router: query, document … Default: the model's own.")
]
BatchSize = Annotated[
    int | None, typer.Option(min=1, help="Encode at most so many texts at a time. Default: no limit.")
]
BatchTokens = Annotated[
    int | None,
    typer.Option(
        min=1, help="Encode at most so many tokens at a time, padding included. Default: it depends on the device."
    ),
]
Precision = Annotated[
    PrecisionName,
    typer.Option(help="Numbers to compute with. int8: on a CPU only; on arm64 it is smaller, but slower."),
]
Dtype = Annotated[DtypeName, typer.Option(help="Type of the numbers in the file.")]
Devices = Annotated[
    str | None, typer.Option(metavar="LIST", help="Use several devices, with one process each: cuda:0,cuda:1 …")
]
Processes = Annotated[int | None, typer.Option(min=1, help="Use so many processes on one device.")]
Columns = Annotated[
    str | None,
    typer.Option(help="Which columns to read, in order, by name or by number from 0: 'sent0,sent1' or '5,6,4'."),
]
Encoding = Annotated[str, typer.Option(help="Text encoding of the file.")]
MaxCharacters = Annotated[int, typer.Option(min=1, help="Drop longer texts, and report how many.")]
AllowDropped = Annotated[
    bool, typer.Option("--allow-dropped", help="Go on where most of the file cannot be used. Default: an error.")
]
StripContained = Annotated[
    bool,
    typer.Option(
        "--strip-contained", help="Pairs: where one side contains the other (a text its title), cut it out there."
    ),
]


def column_names(columns: str | None) -> tuple[str, ...] | None:
    return None if columns is None else tuple(column.strip() for column in columns.split(","))


def split_names(names: str) -> list[str]:
    """Of an option with several names between commas."""
    return [name.strip() for name in names.split(",") if name.strip()]


def seed_numbers(text: str) -> list[int]:
    try:
        seeds = [int(part) for part in text.split(",")]
    except ValueError:
        raise SettingError(f"--seeds: {text!r} is not a list of numbers such as 0,1,2.") from None
    if len(set(seeds)) != len(seeds) or min(seeds) < 0 or max(seeds) > LARGEST_SEED:
        raise SettingError(f"--seeds: {text!r} repeats a seed or has one below 0 or above {LARGEST_SEED}.")
    return seeds


def read_options(
    columns: str | None, encoding: str, max_characters: int, allow_dropped: bool = False
) -> dict[str, Any]:
    return {
        "columns": column_names(columns),
        "encoding": encoding,
        "max_characters": max_characters,
        "allow_dropped": allow_dropped,
    }


Workers = Annotated[
    int | None, typer.Option(min=1, help="With --engine ray: number of workers. Default: one for each GPU, or 2.")
]


def check_workers(engine: EngineName, workers: int | None) -> None:
    if workers is not None and engine is not EngineName.ray:
        raise SettingError("--workers: are Ray's; give --engine ray with it.")


def worker_devices(device: str | None, devices: str | None, processes: int | None) -> list[str] | None:
    """The device of each worker process; None for no such processes."""
    if devices is not None:
        if device is not None or processes is not None:
            raise SettingError("--devices: names a process each; give neither --device nor --processes with it.")
        return split_names(devices)
    if processes is None:
        return None
    import torch

    return [device or ("cuda" if torch.cuda.is_available() else "cpu")] * processes
