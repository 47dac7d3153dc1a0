"""HTML from nested calls, in which a string is text: only what an `element` made is taken as markup.

And numbers in words and figures, as the page writes them."""

from __future__ import annotations

import html
import math
import re
from collections.abc import Collection, Iterable, Sequence

# of no use in a page: HTML has no way to write them
CONTROLS = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ufdd0-\ufdef\ufffe\uffff]")


class Html(str):
    """Markup. Any other string is escaped on its way into the page."""

    __slots__ = ()

    def __html__(self) -> str:
        """Asked for by Jinja, which then leaves it as it is."""
        return self


def text(content: str) -> Html:
    """Escaped; characters that a page cannot hold are shown as U+FFFD, halves of a character as their code."""
    if isinstance(content, Html):
        return content
    whole = content.encode("utf-8", "backslashreplace").decode("utf-8")
    return Html(html.escape(CONTROLS.sub("\ufffd", whole)))


def element(name: str, /, *children: str, **attributes: str | float | bool | None) -> Html:
    """`element("td", "a < b", class_="number")`. An underscore in an attribute's name is a hyphen, at its end nothing.

    True: an attribute without a value; None or False: left out.
    """
    parts = [name]
    for key, value in attributes.items():
        if value is None or value is False:
            continue
        attribute = key.rstrip("_").replace("_", "-")
        parts.append(attribute if value is True else f'{attribute}="{text(str(value))}"')
    opening = f"<{' '.join(parts)}>"
    return Html(f"{opening}{join(children)}</{name}>")


def join(parts: Iterable[str], between: str = "") -> Html:
    return Html(text(between).join(text(part) for part in parts))


def breakable(name: str) -> Html:
    """A name that may be broken where people would break it, and anywhere if there is no such point."""
    return name if isinstance(name, Html) else Html(re.sub(r"([/_.:-]|\w{16})(?=\w)", r"\1<wbr>", text(name)))


def sentence(content: str) -> Html:
    """Somebody's text: its direction, and marks that turn it, end with it."""
    return element("bdi", content, dir="auto")


def section(name: str, title: str, *children: str) -> Html:
    return element("section", element("h2", title, id=name), *children, aria_labelledby=name)


def paragraph(*children: str, kind: str | None = None) -> Html:
    return element("p", *children, class_=kind)


def note(*children: str) -> Html:
    """Something that a reader must not miss."""
    return element("p", *children, class_="note")


def scrolling(label: str, *children: str) -> Html:
    """A box that scrolls by itself where its content is wider than the page, also by keyboard."""
    return element("div", *children, class_="scroll", role="region", aria_label=label, tabindex=0)


def table(
    caption: str,
    head: Sequence[str],
    rows: Iterable[Sequence[str]],
    *,
    foot: Sequence[Sequence[str]] = (),
    words: bool | Collection[str] = False,
) -> Html:
    """A table whose first column names its rows; the others hold figures, or words (see `cell`).

    words: whether the columns hold words, or the names of those that do.
    """
    held = head if words is True else words or ()
    kinds = ["words" if name in held else None for name in head]
    names = zip(head, kinds, strict=True)
    header = element("tr", *(element("th", breakable(name), scope="col", class_=kind) for name, kind in names))
    # within the caption, so that it stays in view where the table scrolls below it
    parts = [element("caption", element("span", caption)), element("thead", header), element("tbody", *map(_row, rows))]
    if foot:
        parts.append(element("tfoot", *map(_row, foot)))
    return scrolling(html.unescape(re.sub(r"<[^>]*>", "", text(caption))), element("table", *parts))


def cell(*children: str, kind: str | None = None) -> Html:
    """A cell of a kind of its own: "words" for text, "best" for the best figure of a row."""
    return element("td", *children, class_=kind)


def _row(cells: Sequence[str]) -> Html:
    first, *others = cells
    made = [other if isinstance(other, Html) and other.startswith("<td") else element("td", other) for other in others]
    return element("tr", element("th", breakable(first), scope="row"), *made)


def code(language: str, content: str) -> Html:
    """A block to copy from."""
    block = element("code", content, class_=f"language-{language}")
    label = {"sh": "commands", "python": "Python", "yaml": "settings"}.get(language, language)
    return element("div", element("pre", block, tabindex=0, role="region", aria_label=label), class_="code")


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
