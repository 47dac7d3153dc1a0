"""Small files with their checksum inside: JSON objects, JSON lines, YAML.

The checksum stands last and covers the bytes before it. A file without one is taken as it is: it comes from elsewhere,
from an older version, or from somebody who changed it and took the checksum out, as the error says.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import xxhash

from nearer.errors import DamagedError, InputError, NearerError
from nearer.storage.whole import write_whole
from nearer.typed_files import Typed, as_typed, parse_json, parsed_file

OBJECT_SEAL = re.compile(r',\n  "checksum": "xxh3:([0-9a-f]{16})"\n\}\n?\Z')
LINE_SEAL = re.compile(r', "check": "([0-9a-f]{16})"\}\Z')
SUM_BYTES = 8
YAML_SEAL = re.compile(r"# checksum: xxh3:([0-9a-f]{16})\n?\Z")


def write_sealed_json(path: Path, content: dict[str, Any]) -> None:
    write_whole(path, sealed_json(content))


def sealed_json(content: dict[str, Any]) -> str:
    """content: at least one key, and none called checksum."""
    body = _text(content, indent=2).removesuffix("\n}")
    return f'{body},\n  "checksum": "xxh3:{_sum(body)}"\n}}\n'


def read_sealed(path: Path, kind: type[Typed], *, error: type[NearerError] = InputError, mend: str = "") -> Typed:
    """The content of a JSON or YAML file, checked, as `kind` (see `typed_files.read_json`)."""
    return as_typed(kind, sealed_content(path, error=error, mend=mend), str(path), error=error, mend=mend)


def sealed_content(path: Path, *, error: type[NearerError] = InputError, mend: str = "") -> Any:
    """The same as it is in the file. Damage is a `DamagedError`, whatever `error` is."""
    unsealed = _unsealed_yaml if path.suffix in (".yaml", ".yml") else _unsealed_json
    return parsed_file(path, error=error, mend=mend, unsealed=lambda text: unsealed(text, path, mend))


def read_sealed_json(path: Path, back: str) -> Any:
    """For readers that say themselves what is wrong: an OSError or a ValueError is theirs, damage is not."""
    return unsealed_json(path.read_bytes(), path, back)


def unsealed_json(raw: bytes, path: Path, back: str) -> Any:
    try:
        text = raw.decode()
    except ValueError:
        raise damaged(path, "is not UTF-8", back) from None
    return parse_json(_unsealed_json(text, path, back))


def _unsealed_json(text: str, path: Path, back: str) -> str:
    found = OBJECT_SEAL.search(text)
    if found is None:
        if '"checksum": "xxh3:' in text:
            raise damaged(path, "its checksum is not where it was written", back, seal="its checksum")
        return text
    body = text[: found.start()]
    if _sum(body) != found[1]:
        raise damaged(path, "its checksum differs", back, seal="its last line, the checksum")
    return f"{body}\n}}"


def _unsealed_yaml(text: str, path: Path, back: str) -> str:
    if (found := YAML_SEAL.search(text)) and _sum(text[: found.start()]) != found[1]:
        raise damaged(path, "its checksum differs", back, seal="its last line, the checksum")
    return text


def sealed_line(content: dict[str, Any]) -> str:
    """One line of a JSON-lines file, with its end."""
    body = _text(content).removesuffix("}")
    return f'{body}, "check": "{_sum(body)}"}}\n'


def unsealed_line(raw: str | bytes) -> dict[str, Any]:
    """A ValueError says that it is damaged."""
    line = (raw if isinstance(raw, str) else raw.decode(errors="surrogateescape")).rstrip("\n")
    if found := LINE_SEAL.search(line):
        body = line[: found.start()]
        if _sum(body) != found[1]:
            raise ValueError("its checksum differs")
        line = body + "}"
    content = parse_json(line)
    if not isinstance(content, dict):
        raise ValueError("no object")
    if "check" in content:
        raise ValueError("its checksum is not where it was written")
    return content


def sealed_lines(path: Path) -> Iterator[tuple[int, dict[str, Any] | None]]:
    """The lines of a file by their numbers, None for one that is damaged."""
    with open(path, "rb") as file:
        for number, raw in enumerate(file, 1):
            try:
                yield number, unsealed_line(raw)
            except ValueError:
                yield number, None


def sealed_yaml(text: str) -> str:
    return f"{text}# checksum: xxh3:{_sum(text)}\n"


def sealed_bytes(content: bytes) -> bytes:
    return content + xxhash.xxh3_64_digest(content)


def unsealed_bytes(raw: bytes) -> bytes:
    """A ValueError says that it is damaged."""
    if len(raw) < SUM_BYTES or xxhash.xxh3_64_digest(raw[:-SUM_BYTES]) != raw[-SUM_BYTES:]:
        raise ValueError("its checksum differs")
    return raw[:-SUM_BYTES]


def damaged(path: Path, fault: str, back: str, *, seal: str = "") -> DamagedError:
    purpose = f" (changed on purpose? then take out {seal})" if seal else ""
    return DamagedError(f"{path}: is damaged ({fault}); {back}{purpose}.")


def _text(content: dict[str, Any], **options: Any) -> str:
    """Half a surrogate pair, which a file name may have, is written as JSON's escape for it."""
    return json.dumps(content, ensure_ascii=False, **options).encode(errors="backslashreplace").decode()


def _sum(text: str) -> str:
    return xxhash.xxh3_64_hexdigest(text.encode(errors="surrogateescape"))
