"""HTML from nested calls, in which a string is text: only what an `element` made is taken as markup."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Sequence

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
    words: bool = False,
) -> Html:
    """A table whose first column names its rows; the others hold figures, or words (see `cell`)."""
    kind = "words" if words else None
    header = element("tr", *(element("th", breakable(name), scope="col", class_=kind) for name in head))
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
