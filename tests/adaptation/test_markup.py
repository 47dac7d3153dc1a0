"""Markdown, HTML and PDF as light Markdown."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nearer.adaptation.document_files import FileAccount, Unreadable
from nearer.adaptation.documents import Document, read_documents
from nearer.adaptation.markup import is_html, read_html, read_markdown
from nearer.adaptation.passages import split_passages
from nearer.adaptation.pdf import join_pages, read_pdf
from small_pdf import make_pdf

MARKDOWN = """---
title: "The garden"
tags: [a, b]
---
<!-- a remark -->
# The garden

See [the **manual**](https://example.org/a "title") and ![a picture](b.png), or `__init__.py` and snake_case_name.

Seeds
-----

| plant | when |
| --- | :-: |
| bean | *May* |

```python
# not a heading
x = [1](2)
```

[ref]: https://example.org
"""


def test_markdown() -> None:
    title, text = read_markdown(MARKDOWN)
    assert title == "The garden"
    assert text == (
        "See the manual and a picture, or __init__.py and snake_case_name.\n\n## Seeds\n\nplant | when\nbean | May\n\n"
        "```\n# not a heading\nx = [1](2)\n```"
    )


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("# One\n\ntext", ("One", "text")),
        ("text\n\n# One", ("", "text\n\n# One")),
        ("---\ntitle: A\n---\n# B\n\ntext", ("A", "# B\n\ntext")),
        ('+++\ntitle = "A"\n+++\ntext', ("A", "text")),
        ("---\n[: broken\n---\ntext", ("", "text")),
        ("```\nopen for ever\n# x", ("", "```\nopen for ever\n# x\n```")),
        ("", ("", "")),
    ],
)
def test_titles_of_markdown(text: str, found: tuple[str, str]) -> None:
    assert read_markdown(text) == found


@pytest.mark.parametrize(
    "piece", ["<!--", "-", "# ", "#", " ", "[a](", "**a", "`", "| -", "<a", "~~~\n", "\n- ", "a\n==\n"]
)
def test_long_runs_take_no_square_of_time(piece: str) -> None:
    text = f"# a{piece * 20_000}b"
    title, found = read_markdown(text)
    assert len(title) + len(found) <= len(text) + 4
    assert split_passages(Document("d", title, found or "x", ""))


PAGE = """<!doctype html><html><head><title>Beans – My site</title><script>var x = "<p>no</p>";</script></head>
<body><header>My site</header><nav><ul><li><a href="/">Home</a></li></ul></nav>
<div role="main"><h1>Beans<a class="headerlink" href="#b">¶</a></h1>
<p>Sow <b>beans</b> in&nbsp;May &amp; June.<br>Water them.</p>
<ul><li><p>dwarf</p></li><li>runner</li></ul>
<h2>Table</h2><table><tr><th>a</th><th>b</th></tr><tr><td>1</td><td>2</td></tr></table>
<pre>def f():
    return 1</pre><aside>An advert</aside></div><footer>© us</footer></body></html>"""


def test_a_page() -> None:
    title, text = read_html(PAGE)
    assert title == "Beans"
    assert text == (
        "Sow beans in May & June.\n\nWater them.\n\n- dwarf\n- runner\n\n## Table\n\na | b\n\n1 | 2\n\n"
        "```\ndef f():\n    return 1\n```\n\nAn advert"
    )


@pytest.mark.parametrize(
    ("page", "found"),
    [
        ("<p>only a piece", ("", "only a piece")),
        ("<title>A</title><nav>never closed <p>" + "text " * 20, ("A", "never closed\n\n" + " ".join(["text"] * 20))),
        ("no tags & none", ("", "no tags & none")),
        ("<p>a<p>b</div></p>c", ("", "a\n\nb\n\nc")),
        ("<h1>A</h1><p>x</p><h1>B</h1><p>y</p>", ("", "# A\n\nx\n\n# B\n\ny")),
        ("<div hidden>secret</div><p>seen", ("", "seen")),
        ("", ("", "")),
    ],
)
def test_odd_pages(page: str, found: tuple[str, str]) -> None:
    assert read_html(page) == found


@given(st.text(alphabet='<>/="! abphdivnscript&;-[]', max_size=200))
def test_no_page_breaks_it(page: str) -> None:
    title, text = read_html(page)
    assert isinstance(title + text, str)


def test_code_is_not_html() -> None:
    assert is_html("<p>One</p>")
    assert is_html("one<br/>two")
    assert not is_html("if a < b and c > d: return vector<int>")


def test_a_pdf(tmp_path: Path) -> None:
    pages = [["The Yearbook 2020", f"It rains in town {n} and the weath-", "er is bad.", f"{n}"] for n in range(4)]
    (tmp_path / "a.pdf").write_bytes(make_pdf(pages, title="Rain"))
    found = read_documents(tmp_path)
    [document] = found.documents
    assert document.title == "Rain"
    assert document.text.replace("\n\n", " ").startswith("It rains in town 0 and the weather is bad. It rains")
    assert "Yearbook" not in document.text
    assert found.account.files[0].dropped == {"running heads and feet": 8}


def test_pdfs_that_give_nothing(tmp_path: Path) -> None:
    account = FileAccount("a.pdf", "pdf")
    with pytest.raises(Unreadable, match="no text in its 2 pages"):
        read_pdf(make_pdf([[], []]), account)
    with pytest.raises(Unreadable, match="encrypted"):
        read_pdf(make_pdf([["secret"]], password="x"), account)
    whole = make_pdf([["It rains."]])
    for broken in (b"", b"%PDF-1.4 nothing", whole[: len(whole) // 2]):
        with pytest.raises(Unreadable):
            read_pdf(broken, account)
    assert read_pdf(make_pdf([["It rains."], []]), account) == ("", "It rains.")
    assert account.dropped["pages without text"] == 1


def test_paragraphs_of_pages() -> None:
    wide = "a line that is as wide as the page is and goes on"
    account = FileAccount("a.pdf", "pdf")
    assert join_pages([f"{wide}\nends here.\n{wide}\n東京は\n雨です"], account) == (
        f"{wide} ends here.\n\n{wide} 東京は雨です"
    )
