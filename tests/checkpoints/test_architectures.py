"""docs/architectures.md says what works with which architecture; here it is found out."""

from __future__ import annotations

from pathlib import Path

import pytest
import transformers
import zoo
from zoo_table import COLUMNS, YES, cell, libraries, read_libraries, read_table

LOADING, REST = COLUMNS[:3], COLUMNS[3:]
# transformers takes seven seconds to make its tokenizer, each time
SLOW_TO_LOAD = ("canine",)


@pytest.fixture(scope="session")
def checkpoints(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("architectures")


def _named(*, slow: bool) -> list[object]:
    marks = [pytest.mark.slow]
    return [pytest.param(name, marks=marks if slow or name in SLOW_TO_LOAD else []) for name in zoo.ARCHITECTURES]


def test_the_table_has_all_of_them() -> None:
    table = read_table()
    assert list(table) == list(zoo.ARCHITECTURES)
    assert len(table) >= 40
    assert all(table[name]["hub form"] == YES for name in ("bert", "roberta", "distilbert", "mpnet", "modernbert"))


def _skip_if_not_there(name: str) -> None:
    if not hasattr(transformers, zoo.ARCHITECTURES[name].config):
        pytest.skip(f"transformers {transformers.__version__} does not have {name} yet")


@pytest.mark.parametrize("name", _named(slow=False))
def test_loading_encoding_and_saving_are_as_the_table_says(name: str, checkpoints: Path) -> None:
    _skip_if_not_there(name)
    row = read_table()[name]
    assert {column: cell(name, column, checkpoints) for column in LOADING} == {each: row[each] for each in LOADING}


@pytest.mark.parametrize("name", _named(slow=True))
def test_training_and_exporting_are_as_the_table_says(name: str, checkpoints: Path) -> None:
    _skip_if_not_there(name)
    if read_libraries() != libraries():
        pytest.skip(f"which graphs can be traced depends on the versions; the table's are {read_libraries()}")
    row = read_table()[name]
    assert {column: cell(name, column, checkpoints) for column in REST} == {each: row[each] for each in REST}
