"""One page about runs and models: what was trained and how, curves, scores, what lies behind them, how to do it again.

Stands on analysis and evaluation. Of training it knows the files that a run leaves, not the code.
"""

from nearer.report.page import report_after_run, write_report

__all__ = ["report_after_run", "write_report"]
