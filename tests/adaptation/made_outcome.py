"""Outcomes of adapt made by hand, in which every figure is another one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from nearer.adaptation.label_figures import LabelFigures
from nearer.adaptation.outcome import Change, Outcome
from nearer.adaptation.tournament import Contender, Standing

HOSTILE = [
    "<script>window.harmed = true</script> the fox",
    'rain"><img src=x onerror="window.harmed = true">',
    "</style></title></table></svg></bdi><h1>lunch",
    "a dog &lt;b&gt; &amp; a fox &#60;i&#62; {{7*7}} {% endif %} ${dog}",
    "the dog \u202eawa raf semoc \u001b[31m rain",
    "ما هو وقت المطر؟",
    "a" * 400,
]
TESTS = {
    "title": {"queries": 388, "overlap": 0.713, "weight": 0.21, "base": 51.62},
    "title in other words": {"queries": 97, "overlap": 0.082, "weight": 0.47, "base": 33.07},
    "sentence": {"queries": 400, "overlap": 0.641, "weight": 0.32, "base": 60.44},
}
BASE = Standing(Contender("base"), 0.0, 0.0, 0.0, {"title": 51.62, "title in other words": 33.07, "sentence": 60.44})
WORDS = Standing(
    Contender("base", lexical=0.3),
    -1.96,
    -3.11,
    -0.84,
    {"title": 53.25, "title in other words": 24.13, "sentence": 61.87},
)
TRAINED = Standing(
    Contender("lists"), 3.57, 2.48, 4.66, {"title": 54.83, "title in other words": 38.22, "sentence": 62.79}
)
WHOLE = Standing(
    Contender("lists", 0.3, 1.0),
    5.19,
    3.93,
    6.41,
    {"title": 57.36, "title in other words": 39.95, "sentence": 63.39},
)
UNCERTAIN = Standing(
    Contender("base", reranker=0.3),
    0.37,
    -0.75,
    1.52,
    {"title": 51.91, "title in other words": 32.7, "sentence": 61.63},
)

FIGURES = LabelFigures(
    queries=131,
    chose=65,
    measured=66,
    standings=[
        Standing(Contender("lists", 0.3, 1.0), 4.27, 1.18, 7.36, {"labels": 47.39}),
        Standing(Contender("lists"), 2.14, -0.63, 4.91, {"labels": 45.26}),
        Standing(Contender("base"), 0.0, 0.0, 0.0, {"labels": 43.12}),
        Standing(Contender("base", lexical=0.3), -0.89, -2.77, 1.01, {"labels": 42.23}),
    ],
    chosen=Standing(Contender("lists", 0.3, 1.0), 4.27, 1.18, 7.36, {"labels": 47.39}),
    alone=Standing(Contender("lists"), 2.14, -0.63, 4.91, {"labels": 45.26}),
    correlation=0.8,
    judges={"base": 43.5, "all-mpnet-base-v2": 48.4, "trusted judges together": 50.6},
    remarks=["2 labelled documents are not among the documents ('x<b>')"],
)


def account() -> dict[str, object]:
    return {
        "read": 1461,
        "kept": 1398,
        "empty": 17,
        "duplicates": 46,
        "near_duplicates": 23,
        "renamed": 0,
        "titles_stripped": 5,
        "skipped": {"pictures": 31},
        "unreadable": {f"docs/{HOSTILE[1]}.pdf": "is encrypted", "docs/b.txt": HOSTILE[0]},
        "files": [
            {"path": "docs/c.csv", "kind": "csv", "documents": 1461, "dropped": {"empty": 17}, "notes": [HOSTILE[2]]}
        ],
        "boilerplate": {"documents": 812, "words": 9_044, "whole": 0, "blocks": {HOSTILE[3]: 812}},
    }


def make_outcome(chosen: Standing = WHOLE, **changed: Any) -> Outcome:
    """Better, with everything at hand, unless something is changed."""
    plan = {"passages": 1600, "queries": 400, "reranks": True, "steps": 640, "seconds": {"tests": 210.0}}
    standings = [WHOLE, TRAINED, BASE, WORDS] if chosen is WHOLE else [UNCERTAIN, BASE, WORDS]
    values: dict[str, Any] = {
        "folder": Path("my adapted"),
        "model": Path("my adapted/model"),
        "base": "all-MiniLM-L6-v2",
        "judge": "models/judge",
        "account": account(),
        "passages": 1600,
        "tests": TESTS,
        "judges": {"all-mpnet-base-v2": 1.0, "reranker": 0.3},
        "judges_above": 6.28,
        "standings": standings,
        "chosen": chosen,
        "encoder_alone": TRAINED if chosen is WHOLE else BASE,
        "latency": {"base": 7.31, "lists": 7.43, "lexical": 1.22, "reranker": 188.5},
        "changes": [
            *(Change("title", query, f"{query} {'and more ' * 40}", 9, 1) for query in HOSTILE),
            Change("sentence", "fell out", "an answer", 2, 0),
            Change("sentence", "was not there", "another answer", 0, 4),
        ],
        "plan": plan,
        "seconds": 734.0,
        "trained": True,
        "asked": {
            "documents": ["docs", "it's more.csv"],
            "model": "all-MiniLM-L6-v2",
            "teachers": ["all-mpnet-base-v2"],
            "judge": "models/judge",
            "budget": "20min",
            "seed": 3,
            "queries": "log.txt",
            "log": 6000,
            "labels": None,
            "choose_by": None,
            "llm": None,
            "llm_test": False,
            "pretrain": None,
            "columns": {"text": "body"},
            "encoding": "utf-8",
            "txt": "auto",
        },
        "remarks": [],
        "all_passages": 1600,
        "weights": {"base": 22_713_216, "lists": 22_713_216, "reranker": 33_360_000},
    }
    return Outcome(**{**values, **changed})


def labelled_outcome(**changed: Any) -> Outcome:
    return make_outcome(**{"labels": FIGURES, **changed})
