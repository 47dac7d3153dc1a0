"""Numbers in words and figures, as the page writes them."""

from __future__ import annotations

import math

MINUS = "\u2212"
LACKING = "\u2013"


def figure(value: float | None, digits: int = 2) -> str:
    """`75.13`; a dash where there is none. No minus before zero."""
    if value is None or not math.isfinite(value):
        return LACKING
    return f"{round(value, digits) + 0.0:,.{digits}f}".replace("-", MINUS)


def signed(value: float, digits: int = 2) -> str:
    rounded = round(value, digits)
    return f"+{rounded:.{digits}f}" if rounded > 0 else figure(value, digits)


def count(number: int, one: str, several: str | None = None) -> str:
    """`1 sentence`, `6,400 sentences`."""
    return f"{number:,} {one if number == 1 else several or one + 's'}"


def short(value: float) -> str:
    """For an axis: `0.05`, `3e-5`, `1.5k`, `2M`."""
    if value == 0 or not math.isfinite(value):
        return "0" if value == 0 else LACKING
    size = abs(value)
    if size < 0.001:
        mantissa, exponent = f"{value:.1e}".split("e")
        shown = f"{float(mantissa):g}e{int(exponent)}"
    elif size >= 1e6:
        shown = f"{value / 1e6:.4g}M"
    elif size >= 1e4:
        shown = f"{value / 1e3:.4g}k"
    else:
        shown = f"{value:.4g}"
    return shown.replace("-", MINUS)


def duration(seconds: float) -> str:
    """`41 s`, `5 min 6 s`, `2 h 10 min`."""
    whole = round(seconds)
    if whole < 60:
        return f"{seconds:.1f} s" if seconds < 10 else f"{whole} s"
    minutes, rest = divmod(whole, 60)
    if minutes < 60:
        return f"{minutes} min {rest} s" if rest else f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if minutes else f"{hours} h"


def listed(parts: list[str]) -> str:
    """`a, b and c`."""
    return " and ".join([", ".join(parts[:-1]), parts[-1]]) if len(parts) > 1 else "".join(parts)
