"""What `make demo` stands on: real text that every machine has, a held-out search made from it, example searches."""

from nearer.demo.docstrings import Docstring, SourceReport, installed_folders, read_docstrings
from nearer.demo.held_out import DemoDocument, DemoText, SummarySearch, hold_out
from nearer.demo.run import EXAMPLE_QUERIES, SetUp, compare_set_ups, search_examples, searches_table

__all__ = [
    "EXAMPLE_QUERIES",
    "DemoDocument",
    "DemoText",
    "Docstring",
    "SetUp",
    "SourceReport",
    "SummarySearch",
    "compare_set_ups",
    "hold_out",
    "installed_folders",
    "read_docstrings",
    "search_examples",
    "searches_table",
]
