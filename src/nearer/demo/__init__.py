"""What `make demo` stands on: real text that every machine has, a held-out task made from it, example searches."""

from nearer.demo.docstrings import Docstring, SourceReport, installed_folders, read_docstrings
from nearer.demo.held_out import DemoText, SummaryTask, hold_out
from nearer.demo.run import EXAMPLE_QUERIES, Search, compare_searches, searches_table

__all__ = [
    "EXAMPLE_QUERIES",
    "DemoText",
    "Docstring",
    "Search",
    "SourceReport",
    "SummaryTask",
    "compare_searches",
    "hold_out",
    "installed_folders",
    "read_docstrings",
    "searches_table",
]
