"""Docstring markup to English sentences."""

from __future__ import annotations

import inspect

import pytest

from nearer.demo.docstrings import looks_english, paragraphs, plain


def prose(docstring: str) -> list[str]:
    return list(paragraphs(inspect.cleandoc(docstring)))


@pytest.mark.parametrize(
    ("marked", "expected"),
    [
        ("Calls ``open`` and :func:`~os.path.join` once.", "Calls open and join once."),
        ("See :ref:`the user guide <guide>` or `here <https://a.b/c>`_.", "See the user guide or here."),
        ("A **bold** and *slanted* word, 2 * 3 * 4.", "A bold and slanted word, 2 * 3 * 4."),
        ("As [this page](https://a.b) says [1]_.", "As this page says."),
        ("Uses [`Trainer`] at https://example.org/x?y=1 now.", "Uses Trainer at now."),
        ("  too   many\tblanks ", "too many blanks"),
    ],
)
def test_inline_markup_goes(marked: str, expected: str) -> None:
    assert plain(marked) == expected


@pytest.mark.parametrize(
    "left_out",
    [
        ">>> secret(1)\n    secret",
        "Parameters\n    ----------\n    x : secret\n        The secret value.",
        "Args:\n        x: The secret value.",
        ":param x: the secret value,\n        and more of the secret",
        ".. code-block:: python\n\n        secret()",
        "```python\n    secret()\n    ```",
        "=====  =====\n    secret  table\n    =====  =====",
        "secret(x, y=1) -> Tensor",
    ],
)
def test_what_is_no_prose_is_left_out_and_what_follows_stays(left_out: str) -> None:
    text = f"""Open a thing.

    {left_out}

    Notes
    -----
    This is prose again.
    """
    assert [line for line in prose(text) if "secret" in line and "table" not in line] == []
    assert prose(text)[0] == "Open a thing."
    assert prose(text)[-1] == "This is prose again."


def test_a_literal_block_goes_and_its_introduction_stays() -> None:
    assert prose("Call it like this::\n\n    secret()\n\nand be done.") == ["Call it like this:", "and be done."]


def test_a_note_is_prose() -> None:
    assert prose(".. note::\n    Mind the gap here.") == ["Mind the gap here."]


def test_each_list_item_is_a_paragraph() -> None:
    assert prose("One of:\n- the first\n  and best\n- the second") == ["One of:", "the first and best", "the second"]


@pytest.mark.parametrize(
    ("sentence", "expected"),
    [
        ("Return the sorted list.", True),
        ("Sort the list", False),  # three words
        ("the " * 60, True),
        ("the " * 61, False),
        ("x = f(y) + g[z]; the_end", False),
        ("Berechnet Summe aller Werte daraus", False),
        ("3 is a number here", False),
        ("Return the \ud800 half sentence", False),
    ],
)
def test_english_is_told_from_the_rest(sentence: str, expected: bool) -> None:
    assert looks_english(sentence) is expected
