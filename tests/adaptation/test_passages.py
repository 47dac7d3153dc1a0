"""Documents in passages and sentences; code and what is written about it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nearer.adaptation.code import is_code, prose_of_code, split_docstring
from nearer.adaptation.documents import Document
from nearer.adaptation.passages import count_words, document_sentences, split_passages
from nearer.errors import SettingError

FUNCTION = '''def paste(xsel=False):
    """Returns the clipboard. It may be empty.

    :param xsel: whether to look elsewhere
    """
    # on X there are two of them
    which = "primary" if xsel else "clipboard"
    return run(which)'''


def document(text: str, title: str = "") -> Document:
    return Document("d", title, text, "d.md")


def test_sections_are_passages_with_their_headings() -> None:
    text = "Intro.\n\n## Sowing\n\nSow in May.\n\n### Beans\n\nDeep.\n\n## Care\n\n```\n# water\n```\n\n## Empty"
    passages = split_passages(document(text, "Garden"))
    assert [(p.id, p.headings, p.text) for p in passages] == [
        ("d#0", (), "Intro."),
        ("d#1", ("Sowing",), "Sow in May."),
        ("d#2", ("Sowing", "Beans"), "Deep."),
        ("d#3", ("Care",), "# water"),
    ]
    assert passages[2].titled == "Garden – Sowing – Beans\nDeep."
    assert split_passages(document("plain"))[0].titled == "plain"


def test_long_sections_are_cut_between_paragraphs_and_sentences() -> None:
    short = "\n\n".join(f"Paragraph {n} has five words." for n in range(6))
    assert [p.text.count("Paragraph") for p in split_passages(document(short), 10)] == [2, 2, 2]
    long = " ".join(f"Sentence {n} has five words." for n in range(8))
    passages = split_passages(document(long), 16)
    assert [p.text.count("Sentence") for p in passages] == [3, 3, 2]
    assert all(p.text.endswith(".") for p in passages)


def test_a_sentence_without_end_is_cut_at_its_commas() -> None:
    passages = split_passages(document("one two three four five, six seven eight nine ten eleven"), 8)
    assert [p.text for p in passages] == ["one two three four five,", "six seven eight nine ten eleven"]
    wide = "雨" * 100
    assert [len(p.text) for p in split_passages(document(wide), 20)] == [40, 40, 20]


@given(
    st.lists(st.sampled_from(["word", "end.", "\n", "\n\n", "# H\n", "```\n", " ", "- ", "雨。", "a | b\n", "x,"])),
    st.integers(8, 20),
)
def test_nothing_is_lost_and_no_passage_is_too_long(pieces: list[str], longest: int) -> None:
    text = " ".join(pieces)
    passages = split_passages(document(text), longest)
    assert all(count_words(passage.text) <= longest for passage in passages)
    assert [passage.number for passage in passages] == list(range(len(passages)))
    for word in ("word", "end.", "雨。", "x,"):
        assert sum(passage.text.count(word) for passage in passages) == text.count(word)


def test_a_megabyte_without_end() -> None:
    passages = split_passages(document("word " * 200_000))
    assert len(passages) == 1000
    assert sum(len(p.text.split()) for p in passages) == 200_000


def test_too_few_words() -> None:
    with pytest.raises(SettingError, match="longest: 3"):
        split_passages(document("x"), 3)


def test_only_headings_are_a_passage() -> None:
    assert [p.text for p in split_passages(document("# One\n## Two"))] == ["One\nTwo"]


def test_sentences_are_those_of_prose() -> None:
    text = "It rains.\nIt snows. - no item\n\n```\nx = 1.\n```\n\na | b\n1 | 2\n\n## Heading\n\n- An item."
    assert document_sentences(document(text)) == ["It rains.", "It snows.", "- no item", "- An item."]


def test_code_is_told_from_prose() -> None:
    assert is_code(FUNCTION)
    assert is_code('int main() {\n  // say it\n  puts("x");\n  return 0;\n}')
    assert not is_code("It rains.\nIt snows.\nReturn it to us (by post).\n")
    assert not is_code("one line = no code")
    assert not is_code("# Heading\n\nSome prose, then\nmore prose here.")


def test_what_is_written_about_code() -> None:
    assert list(prose_of_code(FUNCTION)) == ["Returns the clipboard. It may be empty.", "on X there are two of them"]
    assert document_sentences(document(FUNCTION)) == [
        "Returns the clipboard.",
        "It may be empty.",
        "on X there are two of them",
    ]
    assert split_passages(document(FUNCTION))[0].text == FUNCTION


def test_the_docstring_and_the_code_without_it() -> None:
    found = split_docstring(FUNCTION)
    assert found is not None
    assert found.prose.startswith("Returns the clipboard.")
    assert found.code == (
        "def paste(xsel=False):\n    # on X there are two of them\n"
        '    which = "primary" if xsel else "clipboard"\n    return run(which)'
    )
    old = split_docstring('def f(x):\n    """Say it."""\n    print x')
    assert old is not None
    assert (old.prose, old.code) == ("Say it.", "def f(x):\n    print x")
    java = split_docstring("/** Adds\n * two. */\nint add(int a, int b) {\n  return a + b;\n}")
    assert java is not None
    assert (java.prose, java.code) == ("Adds\ntwo.", "int add(int a, int b) {\n  return a + b;\n}")
    assert split_docstring("def f(x):\n    return x") is None
    assert split_docstring('"""only prose"""') is None
