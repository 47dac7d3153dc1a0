"""Pages of one file: a Jinja template filled in, with styles inside, in which only an `element` is markup."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable
from pathlib import Path

from nearer.report.markup import Html, text

HERE = Path(__file__).parent
STYLES = (HERE.parent / "look.css", HERE / "page.css")


def read_markup(*files: Path) -> Html:
    """Styles or scripts of ours, one after another."""
    return Html("".join(file.read_text(encoding="utf-8") for file in files))


def fill_template(template: Path, functions: dict[str, Callable[..., str]] | None = None, **values: object) -> str:
    """The template with its values, each of them a string or made of strings; what is no `Html` is escaped.

    functions: that the template may call. `digest` is always there: what the page's policy knows a style or script by.
    """
    from jinja2 import Environment, StrictUndefined

    # `text` escapes all that no `element` made
    environment = Environment(
        trim_blocks=True, keep_trailing_newline=True, undefined=StrictUndefined, autoescape=True, finalize=text
    )
    environment.globals |= {"digest": _digest, **(functions or {})}
    return environment.from_string(template.read_text(encoding="utf-8")).render(**values)


def _digest(content: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()}'"
