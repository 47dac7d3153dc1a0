"""The papers' methods, one file each, wiring the parts below them. They know nothing of the loop's mechanics.

A method of your own is a subclass of `Method`. Make it known by `register_method`, or by an entry point of the group
`nearer.methods` in the package that holds it; recipes then name it like any other.
"""

from functools import cache
from importlib.metadata import entry_points

from nearer.errors import SettingError, tell
from nearer.extras import load_plugin
from nearer.methods.arccse import ArcCSE, ArcCSESettings
from nearer.methods.consert import ConSERT, ConSERTSettings
from nearer.methods.contract import Batch, Inputs, Losses, Method, Modules, Outputs, Pass, RecordForm, Tokens
from nearer.methods.ct import CT, CTSettings
from nearer.methods.dclr import DCLR, DCLRSettings
from nearer.methods.debcse import DebCSE, DebCSESettings
from nearer.methods.declutr import DeCLUTR, DeCLUTRSettings
from nearer.methods.diffcse import DiffCSE, DiffCSESettings
from nearer.methods.esimcse import ESimCSE, ESimCSESettings
from nearer.methods.facts import MethodFacts, Paper
from nearer.methods.infocse import InfoCSE, InfoCSESettings
from nearer.methods.isbert import ISBERT, ISBERTSettings
from nearer.methods.lists import ListsSettings, ScoredListsTraining
from nearer.methods.pcl import PCL, PCLSettings
from nearer.methods.promptbert import PromptBERT, PromptBERTSettings
from nearer.methods.rankcse import RankCSE, RankCSESettings
from nearer.methods.rankencoder import RankEncoderSettings, RankEncoderTraining
from nearer.methods.refine import Refinement, RefinementSettings
from nearer.methods.sbert import SBERT, SBERTSettings
from nearer.methods.scored_pairs import ScoredPairs, ScoredPairsSettings
from nearer.methods.simcse import SimCSE, SimCSESettings
from nearer.methods.sncse import SNCSE, SNCSESettings
from nearer.methods.tsdae import TSDAE, TSDAESettings

METHODS: dict[str, type[Method]] = {
    method.facts.name: method
    for method in (
        SimCSE,
        RankCSE,
        RankEncoderTraining,
        DebCSE,
        Refinement,
        ScoredListsTraining,
        PromptBERT,
        SNCSE,
        DiffCSE,
        ESimCSE,
        ArcCSE,
        ConSERT,
        DCLR,
        PCL,
        ScoredPairs,
        TSDAE,
        InfoCSE,
        CT,
        SBERT,
        ISBERT,
        DeCLUTR,
    )
}
ENTRY_POINTS = "nearer.methods"


def register_method(method: type[Method]) -> type[Method]:
    """Make a method known to recipes under its name; also as a decorator of its class."""
    name = method.facts.name
    if METHODS.get(name, method) is not method:
        raise SettingError(f"method: there is one named {name!r} already, {METHODS[name].__qualname__}.")
    METHODS[name] = method
    return method


def known_methods() -> dict[str, type[Method]]:
    """All methods by name, those of installed packages included. A package that cannot be used is told of once."""
    _load_entry_points()
    return METHODS


@cache
def _load_entry_points() -> None:
    for found in entry_points(group=ENTRY_POINTS):
        try:
            method = load_plugin(found, "the method")
            if not (isinstance(method, type) and issubclass(method, Method)):
                raise SettingError(f"{found.value} of an installed package is no nearer.methods.Method.")
            register_method(method)
        except SettingError as error:  # no hindrance to methods that are not its own
            tell(str(error))


__all__ = [
    "CT",
    "DCLR",
    "ISBERT",
    "METHODS",
    "PCL",
    "SBERT",
    "SNCSE",
    "TSDAE",
    "ArcCSE",
    "ArcCSESettings",
    "Batch",
    "CTSettings",
    "ConSERT",
    "ConSERTSettings",
    "DCLRSettings",
    "DeCLUTR",
    "DeCLUTRSettings",
    "DebCSE",
    "DebCSESettings",
    "DiffCSE",
    "DiffCSESettings",
    "ESimCSE",
    "ESimCSESettings",
    "ISBERTSettings",
    "InfoCSE",
    "InfoCSESettings",
    "Inputs",
    "ListsSettings",
    "Losses",
    "Method",
    "MethodFacts",
    "Modules",
    "Outputs",
    "PCLSettings",
    "Paper",
    "Pass",
    "PromptBERT",
    "PromptBERTSettings",
    "RankCSE",
    "RankCSESettings",
    "RankEncoderSettings",
    "RankEncoderTraining",
    "RecordForm",
    "Refinement",
    "RefinementSettings",
    "SBERTSettings",
    "SNCSESettings",
    "ScoredListsTraining",
    "ScoredPairs",
    "ScoredPairsSettings",
    "SimCSE",
    "SimCSESettings",
    "TSDAESettings",
    "Tokens",
    "known_methods",
    "register_method",
]
