"""What the shell offers for a half-typed argument. Asked at every press of a key, so nothing heavy is imported."""

from __future__ import annotations

from pathlib import Path

METHODS = (
    *("simcse", "rankcse", "rankencoder", "debcse", "refine", "lists", "promptbert", "sncse", "diffcse"),
    *("esimcse", "arccse", "consert", "dclr", "pcl"),
    "cosent",
    *("tsdae", "infocse", "ct", "sbert", "isbert", "declutr"),
)
RECIPES = Path(__file__).parent.parent / "recipes"
# the names that nearer.evaluation.tasks knows; they and METHODS are written out because asking would load torch
TASKS = (
    *("sts", "everyday", "sts12", "sts13", "sts14", "sts15", "sts16", "stsb", "stsb-dev", "stsb-train"),
    *("sick-r", "sick-r-dev", "sick-r-train", "sick-r-all"),
    *("transfer", "transfer-fast", "transfer-dev"),
    *(
        f"{name}{form}"
        for form in ("", "-fast", "-dev")
        for name in ("mr", "cr", "subj", "mpqa", "sst2", "trec", "mrpc")
    ),
    "ranking",
    *("wikiqa", "wikiqa-train", "askubuntu", "scidocs", "stackoverflow", "mindsmall"),
)


def recipes(incomplete: str) -> list[str]:
    """The recipes that begin so; where none does, the shell offers files."""
    return sorted(path.stem for path in RECIPES.glob("*.yaml") if path.stem.startswith(incomplete))


def tasks(incomplete: str) -> list[str]:
    """The tasks that the last part of a comma-separated list can become, each with the parts before it."""
    before, comma, last = incomplete.rpartition(",")
    named = before.split(",")
    return [f"{before}{comma}{task}" for task in TASKS if task.startswith(last) and task not in named]


def methods(incomplete: str) -> list[str]:
    return [method for method in METHODS if method.startswith(incomplete)]
