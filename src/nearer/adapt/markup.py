"""Markdown and HTML as light Markdown, the form in which documents are kept: headings as `## …`, code between fences,
items as `- …`, paragraphs between empty lines; without links, images, emphasis and what a page has around its content.
"""

from __future__ import annotations

import html
import re
from html.parser import HTMLParser
from typing import NamedTuple

from nearer.typed_files import Unreadable as NotYaml
from nearer.typed_files import parse_yaml

FENCE = re.compile(r"^\s{0,3}(`{3,}|~{3,})")
_HEADING = re.compile(r"^ {0,3}(#{1,6})[ \t]++(.+)$")
_SETEXT = re.compile(r"^ {0,3}(=+|-+|~+)\s*$")
_FRONT_MATTER = re.compile(r"\A(?:---|\+\+\+)[ \t]*\n(.*?)\n(?:---|\+\+\+|\.\.\.)[ \t]*(?:\n|\Z)", re.DOTALL)
_TOML_TITLE = re.compile(r"""^title\s*=\s*["'](.*?)["']\s*$""", re.MULTILINE)
_COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
_TAG = re.compile(r"</?[a-zA-Z][^<>]{0,500}>")
_REFERENCE = re.compile(r"^ {0,3}\[[^\]]{1,100}\]:\s+\S+.*$")
_DIRECTIVE = re.compile(r"^\s*\.\. (?:_|[\w-]+::|\|).*$")
_ROLE = re.compile(r":[a-zA-Z:]{2,20}:`~?([^`<]{1,300}?)\s*(?:<[^`>]{0,300}>)?`")
_CODE_SPAN = re.compile(r"`{1,2}([^`\n]{1,500})`{1,2}_{0,2}")
_INLINE = (
    (re.compile(r"!\[([^\]]{0,500})\]\([^()\s]{0,2000}(?:\s+\"[^\"]{0,200}\")?\)"), r"\1"),
    (re.compile(r"\[([^\[\]]{1,500})\]\([^()\s]{0,2000}(?:\s+\"[^\"]{0,200}\")?\)"), r"\1"),
    (re.compile(r"\[([^\[\]]{1,500})\]\[[^\[\]]{0,100}\]"), r"\1"),
    (re.compile(r"<(https?://[^<>\s]{1,2000})>"), r"\1"),
    (re.compile(r"(?<![\w*])(\*{1,3}|_{2,3})(?=\S)([^*\n]{1,500}?)(?<=\S)\1(?![\w*])"), r"\2"),
)


def read_markdown(text: str) -> tuple[str, str]:
    """Title and light Markdown. The title is the front matter's, or a heading that the text begins with."""
    title = ""
    if front := _FRONT_MATTER.match(text):
        title = _front_title(front[1])
        text = text[front.end() :]
    closed = text.rfind("-->") + 3  # a comment that nothing closes is none
    lines = _clean_lines((_COMMENT.sub("", text[:closed]) + text[closed:]).split("\n"))
    text = re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip()
    first, _, rest = text.partition("\n")
    heading = read_heading(first)
    if heading and (not title or heading.text.lower() == title.lower()):
        return heading.text, rest.strip()
    return title, text


class Heading(NamedTuple):
    level: int
    text: str


def read_heading(line: str) -> Heading | None:
    """Of a line `## …`, which may end with such signs too."""
    found = _HEADING.match(line)
    text = found[2].rstrip().rstrip("#").rstrip() if found else ""
    return Heading(len(found[1]), text) if found and text else None


def _front_title(front: str) -> str:
    try:
        facts = parse_yaml(front)
    except NotYaml:
        facts = None
    if isinstance(facts, dict):
        found = facts.get("title", "")
        return str(found).strip() if isinstance(found, str | int | float) else ""
    toml = _TOML_TITLE.search(front)
    return toml[1].strip() if toml else ""


def _clean_lines(lines: list[str]) -> list[str]:
    cleaned: list[str] = []
    fence = ""
    for line in lines:
        opening = FENCE.match(line)
        if fence:
            if opening and opening[1].startswith(fence) and line.strip() == opening[1]:
                fence = ""
                line = "```"
            cleaned.append(line.rstrip())
            continue
        if opening:
            fence = opening[1]
            cleaned.append("```")
            continue
        if (
            ("|" in line and "--" in line and not line.strip("|-: \t"))
            or _REFERENCE.match(line)
            or _DIRECTIVE.match(line)
        ):
            continue
        if _SETEXT.match(line) and cleaned and cleaned[-1].strip() and len(line.strip()) >= 3:
            before = cleaned[-2] if len(cleaned) > 1 else ""
            if not before.strip() and not cleaned[-1].startswith(("#", "- ", "> ", "|")):
                cleaned[-1] = ("# " if "=" in line else "## ") + cleaned[-1].strip()
                continue
        cleaned.append(_clean_line(line) if not line.startswith(("    ", "\t")) else line.rstrip())
    if fence:
        cleaned.append("```")
    return cleaned


def _clean_line(line: str) -> str:
    roles = _ROLE.sub(r"\1", line)
    parts = _CODE_SPAN.split(roles)  # every second one is code, whose underlines and stars are its own
    line = "".join(part if number % 2 else _without_markup(part) for number, part in enumerate(parts))
    stripped = line.strip()
    if stripped.startswith("|") and stripped.endswith("|"):
        return " | ".join(cell.strip() for cell in stripped.strip("|").split("|") if cell.strip())
    return line.rstrip()


def _without_markup(text: str) -> str:
    for pattern, kept in _INLINE:
        text = pattern.sub(kept, text)
    return html.unescape(_TAG.sub("", text))


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


_NEVER = _names("script style noscript template svg math iframe object canvas audio video map")
_AROUND = _names("nav header footer aside form button select menu dialog")
_AROUND_ROLES = _names("navigation banner contentinfo search complementary menu dialog")
_VOID = _names("area base br col embed hr img input link meta param source track wbr")
_BLOCKS = _names(
    "address article blockquote body caption dd details div dl dt fieldset figcaption figure h1 h2 h3 h4 h5 "
    "h6 hr html li main ol p pre section summary table tbody tfoot thead tr ul br"
)
_HEADINGS = {f"h{level}": "#" * level for level in range(1, 7)}


class _Block(NamedTuple):
    text: str
    is_main: bool
    is_around: bool
    heading: str = ""


class _Page(HTMLParser):
    """The blocks of a page, each with whether it belongs to the main content or to what stands around it."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.title = ""
        self.blocks: list[_Block] = []
        self._parts: list[str] = []
        self._open: list[tuple[str, str]] = []  # tag, and what it is: "never", "around", "main" or ""
        self._levels = {"never": 0, "around": 0, "main": 0}
        self._heading = self._item = ""
        self._pre = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in _BLOCKS:
            self._flush()
        if tag in _VOID:
            return
        kind = self._kind(tag, {name: value or "" for name, value in attrs})
        self._open.append((tag, kind))
        if kind:
            self._levels[kind] += 1
        if tag in _HEADINGS:
            self._heading = _HEADINGS[tag]
        elif tag == "li":
            self._item = "- "
        elif tag == "pre":
            self._pre += 1
        elif tag in ("td", "th") and self._parts:
            self._parts.append(" | ")

    def _kind(self, tag: str, attributes: dict[str, str]) -> str:
        role, classes = attributes.get("role", ""), attributes.get("class", "").split()
        if (
            tag in _NEVER
            or "hidden" in attributes
            or "headerlink" in classes
            or attributes.get("aria-hidden") == "true"
        ):
            return "never"
        if role in _AROUND_ROLES or (tag in _AROUND and not self._levels["main"]) or tag == "nav":
            return "around"
        return "main" if tag in ("main", "article") or role == "main" else ""

    def handle_endtag(self, tag: str) -> None:
        if tag in _BLOCKS:
            self._flush()
        if not any(name == tag for name, _ in self._open):
            return
        while self._open:
            name, kind = self._open.pop()
            if kind:
                self._levels[kind] -= 1
            if name == "pre":
                self._pre -= 1
            if name == tag:
                break

    def handle_data(self, data: str) -> None:
        if self._open and self._open[-1][0] == "title" and not self._levels["never"]:
            self.title += data
        elif not self._levels["never"]:
            self._parts.append(data)

    def close(self) -> None:
        super().close()
        self._flush()

    def _flush(self) -> None:
        parts, self._parts = self._parts, []
        heading, self._heading = self._heading, ""
        item, self._item = self._item, ""
        raw = "".join(parts)
        if self._pre and not heading:
            text = raw.strip("\n").rstrip()
            text = f"```\n{text}\n```" if text.strip() else ""
        else:
            text = " ".join(raw.split())
        if not text:
            self._heading, self._item = heading, item  # <li><p>…, <h2><div>…
            return
        main, around = self._levels["main"] > 0, self._levels["around"] > 0
        self.blocks.append(_Block(f"{heading} {text}" if heading else item + text, main, around, heading and text))


def read_html(text: str) -> tuple[str, str]:
    """Title and light Markdown of a page: its main content if it names one, else all but navigation and its like."""
    page = _Page()
    page.feed(text)
    page.close()
    blocks = _content(page.blocks)
    headings = [block for block in blocks if block.heading]
    title = " ".join(page.title.split())
    if headings and headings[0].text.startswith("# ") and sum(b.text.startswith("# ") for b in headings) == 1:
        title = headings[0].heading  # a page's own title often ends with that of the site
        blocks = [block for block in blocks if block is not headings[0]]
    lines: list[str] = []
    for before, block in zip([None, *blocks], blocks, strict=False):
        if before is not None and not (before.text.startswith("- ") and block.text.startswith("- ")):
            lines.append("")
        lines.append(block.text)
    return title, "\n".join(lines).strip()


def _content(blocks: list[_Block]) -> list[_Block]:
    """Never almost nothing: a page that closes its tags wrongly would else be lost."""
    total = sum(len(block.text) for block in blocks)
    for chosen in ([b for b in blocks if b.is_main and not b.is_around], [b for b in blocks if not b.is_around]):
        if sum(len(block.text) for block in chosen) > 0.2 * total:
            return chosen
    return blocks


_HTML_TEXT = re.compile(
    r"</(?:p|div|li|ul|ol|a|b|i|em|strong|code|pre|h[1-6]|span|td|blockquote)>|<br\s*/?>", re.IGNORECASE
)


def is_html(text: str) -> bool:
    """Whether a text, such as the body column of a table, is HTML."""
    return _HTML_TEXT.search(text) is not None
