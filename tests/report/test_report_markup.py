"""Strings are text, whatever they look like."""

from __future__ import annotations

import pytest

from nearer.report.markup import Html, breakable, cell, code, element, join, section, sentence, table, text


def test_strings_are_escaped_and_elements_are_not() -> None:
    assert element("p", "a < b", element("b", "&"), title='"') == '<p title="&quot;">a &lt; b<b>&amp;</b></p>'


def test_attributes_by_their_value() -> None:
    assert element("a", hidden=True, title=None, open=False, aria_label="x", class_="y") == (
        '<a hidden aria-label="x" class="y"></a>'
    )


def test_what_was_joined_by_plus_is_a_string_again() -> None:
    """No way around the escaping: only `element` and `join` make markup."""
    assert not isinstance(element("b", "x") + "<i>", Html)
    assert join([element("b", "x") + "<i>"]) == "&lt;b&gt;x&lt;/b&gt;&lt;i&gt;"


@pytest.mark.parametrize(
    ("content", "shown"),
    [("\x00\x1b[31m", "\ufffd\ufffd[31m"), ("\ud800", "\\ud800"), ("a\tb\nc", "a\tb\nc"), ("東京", "東京")],
)
def test_characters_that_a_page_cannot_hold_are_shown_all_the_same(content: str, shown: str) -> None:
    assert text(content) == shown
    text(content).encode("utf-8")


def test_direction_ends_with_the_sentence() -> None:
    assert sentence("\u202ebuk") == '<bdi dir="auto">\u202ebuk</bdi>'


def test_a_table_names_its_rows_and_columns() -> None:
    made = table("A & B", ["task", "<m>"], [["x", "1"], ["y", cell("2", kind="best")]], foot=[["mean", "1.5"]])
    assert '<th scope="col">&lt;m&gt;</th>' in made
    assert '<th scope="row">x</th><td>1</td>' in made
    assert '<th scope="row">y</th><td class="best">2</td>' in made
    assert '<tfoot><tr><th scope="row">mean</th><td>1.5</td></tr></tfoot>' in made
    assert 'aria-label="A &amp; B"' in made  # escaped once, not twice


def test_a_cell_that_only_looks_like_one_is_text() -> None:
    assert "<td>&lt;td&gt;x</td>" in table("t", ["a", "b"], [["r", "<td>x"]])


def test_names_break_where_people_would_break_them() -> None:
    assert breakable("runs/seed-0 <b>") == "runs/<wbr>seed-<wbr>0 &lt;b&gt;"
    assert breakable("a" * 20) == f"{'a' * 16}<wbr>aaaa"


def test_sections_are_named_by_their_headings() -> None:
    assert section("here", "A < B") == '<section aria-labelledby="here"><h2 id="here">A &lt; B</h2></section>'
    assert '<code class="language-sh">a &amp;&amp; b</code>' in code("sh", "a && b")
