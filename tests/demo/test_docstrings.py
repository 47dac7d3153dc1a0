"""Reading docstrings from source files, and keeping the held-out ones out of the training text."""

from __future__ import annotations

from pathlib import Path

import pytest

from nearer.demo import docstrings as module
from nearer.demo.docstrings import Docstring, read_docstrings
from nearer.demo.held_out import hold_out, key
from nearer.errors import InputError


@pytest.fixture
def packages(tmp_path: Path) -> Path:
    def write(name: str, content: str | bytes) -> None:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())

    write(
        "alpha/__init__.py",
        '''"""Everything that alpha has to offer.

        It is imported by nobody.
        """
import sys
sys.exit("this module was executed")
''',
    )
    write(
        "alpha/deep.py",
        '''
class Box:
    """A box that holds other things."""

    def open(self):
        """Open the box with care.

        The lid is lifted first. What lies inside is then shown to the caller.
        """
        def inner():
            """A nested function that has a docstring."""

    async def close(self):
        """Close the box without a sound."""

if True:
    try:
        pass
    except ValueError:
        def rescued():
            """Found in the handler of an error."""

def empty():
    """   """

def bare():
    return 1

def terse():
    """Go."""
''',
    )
    write("alpha/tests/test_it.py", '"""This docstring stands in a folder of tests."""')
    write("beta.py", "# -*- coding: latin-1 -*-\n'''The na\u00efve approach to all of it.'''\n".encode("latin-1"))
    write("gamma/broken.py", "def f(:\n    '''This will never be parsed at all.'''")
    write("gamma/bytes.py", b"'''Not valid in any of \xff\xfe encodings.'''")
    write("gamma/nulls.py", b"'''There is a null \x00 in here.'''")
    write("gamma/marked.py", b"\xef\xbb\xbf'''A byte order mark is before this.'''")
    return tmp_path


def summaries(found: list[Docstring]) -> list[str]:
    return [docstring.summary for docstring in found]


def test_docstrings_are_found_at_any_depth_without_running_anything(packages: Path) -> None:
    found, report = read_docstrings([packages])
    assert summaries(found) == [
        "Everything that alpha has to offer.",
        "A box that holds other things.",
        "Open the box with care.",
        "A nested function that has a docstring.",
        "Close the box without a sound.",
        "Found in the handler of an error.",
        "The naïve approach to all of it.",
        "A byte order mark is before this.",
    ]
    assert found[2].body == ("The lid is lifted first.", "What lies inside is then shown to the caller.")
    assert [docstring.is_function for docstring in found[:3]] == [False, False, True]
    assert {docstring.package for docstring in found} == {"alpha", "beta", "gamma"}
    assert report.skipped_files == {"cannot be parsed": 3}
    assert (report.packages, report.files, report.docstrings, report.without_english) == (3, 4, 8, 1)
    assert "3 files skipped: cannot be parsed" in str(report)


def test_the_order_does_not_follow_the_file_system(packages: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    expected, _ = read_docstrings([packages], per_package=3)
    forwards = list(module._python_files(packages))
    monkeypatch.setattr(module, "_python_files", lambda root: reversed(forwards))
    assert read_docstrings([packages], per_package=3)[0] == expected


def test_a_package_that_gave_enough_is_left(tmp_path: Path) -> None:
    for number in range(10):
        (tmp_path / "big").mkdir(exist_ok=True)
        (tmp_path / "big" / f"m{number}.py").write_text(f'"""This is the module with number {number}."""')
    (tmp_path / "small.py").write_text('"""This is the only small module."""')
    found, report = read_docstrings([tmp_path], per_package=4)
    assert [docstring.package for docstring in found] == ["big"] * 4 + ["small"]
    assert report.files_beyond_limit == 6


def test_a_folder_without_python_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no Python files"):
        read_docstrings([tmp_path])
    with pytest.raises(InputError, match="is not a folder"):
        read_docstrings([tmp_path / "none"])


def test_a_very_long_chain_of_conditions_is_walked_or_counted(tmp_path: Path) -> None:
    chain = "if a: pass\n" + "elif a: pass\n" * 900 + "else:\n  def f():\n    '''At the end of a long chain.'''\n"
    (tmp_path / "chain.py").write_text(chain)
    found, report = read_docstrings([tmp_path])
    assert len(found) + report.skipped_files["cannot be parsed"] == 1


def docstring(number: int, summary: str, *body: str, is_function: bool = True) -> Docstring:
    return Docstring("p", f"f.py:{number:06}", is_function, summary, body)


DISTINCT = [
    docstring(n, f"Return the value of {word}.", f"Among all the others it is {word} that has been asked for here.")
    for n, word in enumerate(["red", "green", "blue", "grey", "pink", "brown", "black", "white"])
]


def test_what_is_held_out_is_not_in_the_documents() -> None:
    copies = [
        docstring(100 + n, f"A copy with its own summary {n}.", d.summary.upper(), *d.body, is_function=False)
        for n, d in enumerate(DISTINCT)
    ]
    # the copies' bodies repeat what is asked and what is to be found
    text = hold_out(DISTINCT + copies, 3, seed=1)
    held_out = {key(sentence) for sentence in (*text.search.queries, *text.search.answers)}
    assert len(text.search.queries) == 3
    assert not held_out & {key(part) for document in text.documents for part in (document.title, document.text)}
    assert text.leaking == 6
    # what was not drawn, and its copies; of the copies of what was drawn nothing is left below the summary
    assert len(text.documents) == 5 + 5


def test_a_sentence_inside_a_held_out_body_is_removed() -> None:
    whole = docstring(0, "Return the whole of it.", "First of all, the lid is lifted, and then it is closed again.")
    part = docstring(
        1,
        "Of lids and other things.",
        "The lid is lifted, and then.",
        "Nothing of this is held out.",
        is_function=False,
    )
    text = hold_out([whole, part], 1)
    assert [(document.title, document.text) for document in text.documents] == [
        ("Of lids and other things.", "Nothing of this is held out.")
    ]
    assert text.leaking == 1


def test_a_summary_that_is_held_out_takes_its_document_with_it() -> None:
    whole = docstring(0, "Return the whole of it.", "First of all, the lid is lifted, and then it is closed again.")
    part = docstring(1, "The lid is lifted, and then.", "Nothing of this is held out.", is_function=False)
    assert hold_out([whole, part], 1).documents == []


def test_a_summary_that_occurs_twice_is_never_asked() -> None:
    twice = [docstring(50 + n, "Return the same thing.", f"This is the text of it, number {n} of two.") for n in (1, 2)]
    text = hold_out(twice + DISTINCT, len(DISTINCT))
    assert sorted(text.search.queries) == sorted(d.summary for d in DISTINCT)
    assert [key(answer) for answer in text.search.answers] == [
        key(" ".join(d.body)) for query in text.search.queries for d in DISTINCT if d.summary == query
    ]
    with pytest.raises(InputError, match="9 asked for, but only 8 of 10"):
        hold_out(twice + DISTINCT, 9)


def test_the_draw_follows_the_seed() -> None:
    assert hold_out(DISTINCT, 3, seed=1) == hold_out(DISTINCT, 3, seed=1)
    assert hold_out(DISTINCT, 3, seed=1).leaking == 0  # what was drawn is not counted as leaking
    draws = {tuple(hold_out(DISTINCT, 3, seed=seed).search.queries) for seed in range(8)}
    assert len(draws) > 1


def test_duplicates_count_once_and_bare_summaries_are_left_out() -> None:
    same = [docstring(60 + n, "It is the same everywhere.", "Wherever one looks.", is_function=False) for n in range(3)]
    other = docstring(70, "It is the SAME everywhere!", "Wherever one looks.", is_function=False)
    bare = docstring(80, "There is nothing below this one.", is_function=False)
    text = hold_out([*DISTINCT[:1], *same, other, bare], 1)
    assert [document.id for document in text.documents] == ["p/f.py:000060"]
