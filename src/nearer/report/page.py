"""The page: one HTML file that holds its style and its script, asks for nothing from anywhere, and lets nothing in."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from pathlib import Path

import nearer
from nearer.evaluation.published import Published
from nearer.report.behind import behind_section
from nearer.report.curves import curves_section
from nearer.report.markup import Html, element, link
from nearer.report.measured import Measured
from nearer.report.rankings import rankings_section
from nearer.report.reproduce import reproduce_section
from nearer.report.scores import scores_section
from nearer.report.subjects import Subject
from nearer.report.trained import trained_section
from nearer.report.verdict import title, verdict

HERE = Path(__file__).parent
PARTS = {
    "trained": "How",
    "curves": "Curves",
    "scores": "Scores",
    "behind": "Behind the scores",
    "rankings": "Rankings",
    "reproduce": "How to repeat it",
}


def page(
    subjects: Sequence[Subject], measured: Measured, *, published: Sequence[Published] = (), made_by: str = ""
) -> str:
    """made_by: the command that writes it."""
    sections = {
        "trained": trained_section(subjects),
        "curves": curves_section(subjects),
        "scores": scores_section(subjects, measured.scores, measured.protocols, published),
        "behind": behind_section(measured),
        "rankings": rankings_section(measured),
        "reproduce": reproduce_section(subjects, made_by),
    }
    entries = [element("li", link(name, PARTS[name])) for name, content in sections.items() if content]
    header = element(
        "header",
        element("p", "nearer report", class_="kicker"),
        element("h1", title(subjects)),
        verdict(subjects, measured),
        element("nav", element("ul", *entries), aria_label="parts of this page"),
    )
    footer = element("footer", element("p", f"Made by nearer {nearer.__version__}."))
    body = element("body", header, element("main", *sections.values()), footer, _script())
    document = element("html", _head(f"{title(subjects)} · nearer report"), body, lang="en")
    return f"<!doctype html>\n{document}\n"


def _head(name: str) -> Html:
    # no text on this page can load or run anything, even if it were taken for markup
    policy = (
        f"default-src 'none'; img-src data:; style-src {_digest(_style())}; "
        f"script-src {_digest(_file('page.js'))}; base-uri 'none'; form-action 'none'"
    )
    return element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", http_equiv="Content-Security-Policy", content=policy),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="color-scheme", content="light dark"),
        element("title", name),
        element("link", rel="icon", href="data:,"),
        element("style", Html(_style())),
    )


def _style() -> str:
    return (HERE.parent / "look.css").read_text(encoding="utf-8") + _file("page.css")


def _script() -> Html:
    return element("script", Html(_file("page.js")))


def _file(name: str) -> str:
    return (HERE / name).read_text(encoding="utf-8")


def _digest(content: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()}'"
