"""Numbers as people write and read them: 10k sentences, 6.2 ms, 1.5 GiB."""

from __future__ import annotations

import re

from nearer.errors import SettingError

# What every generator of random numbers here takes
LARGEST_SEED = 2**63 - 1

_FACTORS = {"": 1, "k": 1_000, "m": 1_000_000}


def counts(text: str, setting: str) -> list[int]:
    """'1k,10k,1m' as numbers, in order, each once."""
    return list(dict.fromkeys(_count(part.strip(), setting) for part in text.split(",")))


def _count(text: str, setting: str) -> int:
    found = re.fullmatch(r"(\d{1,15})([km]?)", text.lower())
    if found is None or int(found[1]) == 0:
        raise SettingError(f"{setting}: {text!r} is not a number such as 64, 10k or 1m.")
    return int(found[1]) * _FACTORS[found[2]]


def parsed_bytes(text: str, setting: str) -> int:
    """'20GB' or '512 MiB' as a number of bytes."""
    found = re.fullmatch(r"(\d{1,15}(?:\.\d{1,6})?)\s*([kmgt]?)(i?)b?", text.strip().lower())
    if found is None:
        raise SettingError(f"{setting}: {text!r} is not a size such as 512MB or 20GB.")
    return int(float(found[1]) * (1024 if found[3] else 1000) ** " kmgt".index(found[2] or " "))


def as_count(value: float | None) -> str:
    return "" if value is None else f"{value:,.0f}"


def as_seconds(seconds: float | None) -> str:
    if seconds is None:
        return ""
    if seconds < 1:
        return f"{1000 * seconds:.2f} ms"
    return f"{seconds:.1f} s" if seconds < 120 else f"{seconds / 60:.1f} min"


def as_bytes(size: int | None) -> str:
    if size is None:
        return ""
    return f"{size / 2**30:.2f} GiB" if size >= 2**30 else f"{size / 2**20:.0f} MiB"
