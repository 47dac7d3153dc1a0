"""Reading JSON and YAML that others may have written: bounded, and of the types that are needed.

Whatever such a file holds, its reader gets what it asked for or an error in one line that names the file and the key
in it. What could take hours or all memory (aliases of aliases, nests without end) is refused before it is built.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, TypeVar, cast

import yaml
from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError

from nearer.errors import InputError, NearerError, first_line, shown

Typed = TypeVar("Typed")

DEEPEST = 50  # lists and objects within each other
MOST_DIGITS = 100
LARGEST_JSON = 64 * 2**20  # bytes
LARGEST_YAML = 2**20
MOST_NODES = 100_000  # values of a YAML file, with each alias counted as all that it stands for


class Unreadable(ValueError):
    """Text that is not JSON or YAML, or more of it than anybody needs."""


class FileFacts(BaseModel):
    """The fields of a file that are used here; what else stands in it is left alone."""

    model_config = ConfigDict(extra="ignore", frozen=True, allow_inf_nan=False)


def read_json(
    path: Path,
    kind: type[Typed],
    *,
    format: int | None = None,
    error: type[NearerError] = InputError,
    mend: str = "",
) -> Typed:
    """The content of a file as `kind` (a type, or a model of pydantic's).

    format: what its field of this name must be, if it has one. mend: what to do, without a full stop.
    """
    value = parsed_file(path, error=error, mend=mend)
    if format is not None and isinstance(value, dict) and (found := value.get("format", format)) != format:
        raise error(f"{path}: has format {shown(found)}, this version reads {format}; update nearer.")
    return as_typed(kind, value, str(path), error=error, mend=mend)


def parsed_file(
    path: Path,
    *,
    error: type[NearerError] = InputError,
    mend: str = "",
    unsealed: Callable[[str], str] = lambda text: text,
) -> Any:
    """The content of a JSON file, or of a YAML file by its name. unsealed: the text without what is not its content."""
    is_yaml = path.suffix in (".yaml", ".yml")
    try:
        size = path.stat().st_size
        largest = LARGEST_YAML if is_yaml else LARGEST_JSON
        if size > largest:
            raise Unreadable(f"{size:,} bytes, more than the {largest:,} that such a file may have")
        text = unsealed(path.read_text(encoding="utf-8"))
        return parse_yaml(text) if is_yaml else parse_json(text)
    except FileNotFoundError:
        raise error(f"{path}: is missing{f'; {mend}' if mend else ''}.") from None
    except NearerError:
        raise
    except (OSError, ValueError) as reason:  # ValueError: Unreadable, and bytes that are no UTF-8
        said = getattr(reason, "strerror", None) or first_line(reason)
        raise error(f"{path}: cannot be read ({said}){f'; {mend}' if mend else ''}.") from None


def as_typed(
    kind: type[Typed], value: Any, where: str, *, error: type[NearerError] = InputError, mend: str = ""
) -> Typed:
    """The value as `kind`, or an error that says where it is something else."""
    try:
        typed: Typed = _adapter(cast(Hashable, kind)).validate_python(value)
        return typed
    except ValidationError as mistakes:
        first = mistakes.errors()[0]
        key = ".".join(map(str, first["loc"]))
        message = first["msg"].removeprefix("Value error, ").rstrip(".")
        given = "" if first["type"] == "missing" else f" ({shown(first['input'])} given)"
        ending = f"; {mend}" if mend else ""
        raise error(f"{where}: {key + ': ' if key else ''}{message}{given}{ending}.") from None


@cache
def _adapter(kind: Any) -> TypeAdapter[Any]:
    return TypeAdapter(kind)


def parse_json(text: str | bytes) -> Any:
    try:
        value = json.loads(text if isinstance(text, str) else text.decode("utf-8"), parse_int=_whole_number)
    except RecursionError:
        raise Unreadable(f"lists and objects within each other, more than {DEEPEST} deep") from None
    except Unreadable:
        raise
    except ValueError as error:
        raise Unreadable(f"not JSON: {first_line(error)}") from None
    _check_depth(value)
    return value


def parse_yaml(text: str) -> Any:
    """By PyYAML's safe loader, which builds plain values only."""
    if len(text) > LARGEST_YAML:
        raise Unreadable(f"{len(text):,} characters of YAML, more than {LARGEST_YAML:,}")
    try:
        _check_nodes(text)
        value = yaml.safe_load(text)
        for number in _numbers(value):
            _check_digits(number)
    except Unreadable:
        raise
    except Exception as error:  # its constructors stumble over wrong values in many ways, besides its own errors
        raise Unreadable(f"not YAML: {' '.join(str(error).split())[:300]}") from None
    return value


def _whole_number(digits: str) -> int:
    if len(digits) > MOST_DIGITS:
        raise Unreadable(f"a number of {len(digits):,} digits, more than {MOST_DIGITS}")
    return int(digits)


def _check_digits(number: int) -> None:
    if number.bit_length() > 332:  # 100 digits; to count them would cost what is to be saved
        raise Unreadable(f"a number of more than {MOST_DIGITS} digits")


def _check_depth(value: Any) -> None:
    """By a list of what is left: a function that calls itself would end as the parser does."""
    level = [value]
    for _ in range(DEEPEST + 1):
        level = [inner for outer in level for inner in _inside(outer)]
        if not level:
            return
    raise Unreadable(f"lists and objects within each other, more than {DEEPEST} deep")


def _inside(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return list(value.values())
    return value if isinstance(value, list) else []


def _numbers(value: Any) -> Iterator[int]:
    """All whole numbers in what YAML holds, of which `_check_nodes` has seen that they are not too many."""
    left = [value]
    while left:
        found = left.pop()
        if isinstance(found, int):
            yield found
        elif isinstance(found, dict):
            left += [*found, *found.values()]
        elif isinstance(found, list | tuple | set):
            left += found


def _check_nodes(text: str) -> None:
    """Count values as they will be built: an alias stands for all that its anchor holds.

    On the parser's events, which come one by one and cost no more than the text is long.
    """
    sizes: dict[str, int] = {}  # by anchor
    opened: list[tuple[str | None, int]] = []  # of each list or mapping that is not closed: anchor, values so far
    for event in yaml.parse(text, Loader=yaml.SafeLoader):
        anchor = getattr(event, "anchor", None)
        line = event.start_mark.line + 1
        if isinstance(event, yaml.CollectionStartEvent):
            opened.append((anchor, 1))
            if len(opened) > DEEPEST:
                raise Unreadable(f"line {line}: lists and mappings within each other, more than {DEEPEST} deep")
            continue
        if isinstance(event, yaml.AliasEvent):
            if anchor not in sizes:
                raise Unreadable(f"line {line}: the alias *{anchor} stands for nothing that comes before it")
            size = sizes[anchor]
        elif isinstance(event, yaml.CollectionEndEvent):
            anchor, size = opened.pop()
        elif isinstance(event, yaml.ScalarEvent):
            size = 1
        else:
            continue
        if anchor is not None:
            sizes[anchor] = size
        if opened:
            outer, before = opened[-1]
            opened[-1] = outer, before + size
            if before + size > MOST_NODES:
                raise Unreadable(
                    f"line {line}: more than {MOST_NODES:,} values, with aliases (*) as what they stand for"
                )
