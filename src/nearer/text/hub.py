"""Rows of Hugging Face data sets, by name."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from urllib.parse import parse_qs

from nearer.errors import InputError, first_line
from nearer.extras import require
from nearer.text.faults import Fault, ReadReport
from nearer.text.records import Row
from nearer.text.shapes import Shape, resolve_columns

HUB_PREFIX = "hf:"


def _check_reachable(name: str, path: str, revision: str | None) -> None:
    """One quick question first: without a network, the library would try for half a minute, and say so at length."""
    from huggingface_hub import HfApi
    from huggingface_hub.constants import HF_HUB_OFFLINE

    if HF_HUB_OFFLINE:
        return  # it may be in the cache
    try:
        HfApi().dataset_info(path, revision=revision, timeout=20)
    except Exception as error:  # the hub client's and the network's errors alike
        raise InputError(f"{name}: cannot be found on the Hugging Face hub ({first_line(error)}).") from None


def hub_rows(name: str, shape: Shape, columns: Sequence[str] | None, report: ReadReport) -> Iterator[Row]:
    """A data set by name, `hf:owner/name?config=C&split=train&revision=R`, streamed."""
    datasets = require("datasets", "hub", f"{name}: reading a Hugging Face data set")
    report.unit = "row"
    path, _, query = name.removeprefix(HUB_PREFIX).partition("?")
    if not path:
        raise InputError(f"{name}: names no data set; write {HUB_PREFIX}owner/name.")
    options = {key: values[-1] for key, values in parse_qs(query, keep_blank_values=True).items()}
    unknown = sorted(set(options) - {"config", "split", "revision"})
    if unknown:
        raise InputError(f"{name}: unknown option {unknown[0]!r}; config, split and revision can be given.")
    if not Path(path).exists():
        _check_reachable(name, path, options.get("revision"))
    try:
        rows = datasets.load_dataset(
            path,
            options.get("config"),
            split=options.get("split", "train"),
            revision=options.get("revision"),
            streaming=True,
        )
        names = list(rows.column_names or next(iter(rows), {}))
    except Exception as error:  # the library raises its own, the hub client's and the network's errors alike
        raise InputError(f"{name}: cannot be loaded ({first_line(error)}).") from None
    indices = resolve_columns(shape, columns, names, name)
    report.note(f"columns used: {', '.join(names[index] for index in indices if index is not None)}")
    number = 0
    stream = iter(rows)
    while True:
        try:
            row = next(stream)
        except StopIteration:
            return
        except Exception as error:
            raise InputError(
                f"{name}: broke off after row {number:,} ({first_line(error)}); if that was the network, try again."
            ) from None
        number += 1
        missing = [names[index] for index in indices if index is not None and names[index] not in row]
        if missing:  # the files of one data set can differ in their columns
            yield Row(number, (), Fault.WRONG_FIELDS, f"no field {', '.join(map(repr, missing))}")
        else:
            yield Row(number, [None if index is None else row[names[index]] for index in indices])
