"""Python, the packages that are needed, and the optional ones, against the bounds that the package states."""

from __future__ import annotations

import platform
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, metadata, requires, version
from typing import TYPE_CHECKING

import nearer
from nearer.doctor.finding import Finding, State
from nearer.extras import install_command

if TYPE_CHECKING:
    from packaging.requirements import Requirement

# what each extra is for; those for working on the project, and those that only collect others, are not shown
PURPOSES = {
    "parquet": "reading and writing Parquet",
    "hub": "Hugging Face data sets (hf:NAME)",
    "tensorboard": "training logs for TensorBoard",
    "sentence-transformers": "our losses in sentence-transformers' trainer",
    "plots": "figures as files",
    "mteb": "MTEB's tasks",
    "onnx": "nearer export onnx",
    "search": "nearer search",
    "serve": "nearer serve",
    "construct": "edit distances for debiased samples",
    "translation": "back-translation by Marian models",
    "llm": "language models from GGUF files",
    "llama-cpp": "language models by llama.cpp",
    "ray": "work spread over machines",
    "docs": "make docs",
}
COLLECTIONS = ("all", "dev")
# extras that pip cannot simply bring to Linux on arm64, and why
NOT_READY_MADE = {
    "mteb": "pytrec-eval has no package made for this machine (Linux, arm64): pip needs a C compiler and GitHub for it"
}
PYTHON = "Python"


def python() -> Iterator[Finding]:
    """The interpreter, and whether the package is installed or only lies on the path."""
    from packaging.specifiers import SpecifierSet

    found = f"{platform.python_version()} ({platform.python_implementation()}), nearer {nearer.__version__}"
    try:
        wanted = metadata("nearer")["Requires-Python"]
    except PackageNotFoundError:
        mend = "install it where its pyproject.toml lies: pip install --editable ."
        yield Finding(PYTHON, State.doubtful, f"{found}, not installed: bounds and extras are unknown", mend)
        return
    if SpecifierSet(wanted).contains(platform.python_version(), prereleases=True):
        yield Finding(PYTHON, State.good, found)
    else:
        yield Finding(PYTHON, State.broken, f"{found}; {wanted} is needed", f"use a Python {wanted}")


def packages() -> Iterator[Finding]:
    """The packages that nothing works without: one finding if all are right, else one for each that is not."""
    needed = [requirement for requirement in _requirements("") if requirement.name != "nearer"]
    faults = [(requirement, fault) for requirement in needed if (fault := _fault(requirement))]
    for requirement, fault in faults:
        yield Finding(requirement.name, State.broken, fault, f"pip install '{_line(requirement)}'")
    if needed and not faults:
        shown = ", ".join(f"{requirement.name} {version(requirement.name)}" for requirement in needed)
        yield Finding("packages", State.good, shown)


def extras() -> Iterator[Finding]:
    """Each extra: installed, too old, or the line that brings it."""
    for extra in _extras():
        wanted = _requirements(extra)
        faults = [fault for requirement in wanted if (fault := _fault(requirement))]
        name, purpose = f"[{extra}]", PURPOSES.get(extra, ", ".join(requirement.name for requirement in wanted))
        line = install_command(extra)
        if not faults:
            shown = ", ".join(f"{requirement.name} {version(requirement.name)}" for requirement in wanted)
            yield Finding(name, State.good, f"{purpose}: {shown}")
        elif all(fault.endswith("not installed") for fault in faults):
            why = f" ({NOT_READY_MADE[extra]})" if extra in NOT_READY_MADE and _is_linux_on_arm() else ""
            yield Finding(name, State.absent, f"{purpose}: {line}{why}")
        else:
            yield Finding(name, State.doubtful, f"{purpose}: {'; '.join(faults)}", line)


def _is_linux_on_arm() -> bool:
    return platform.system() == "Linux" and platform.machine() in ("aarch64", "arm64")


def _extras() -> list[str]:
    try:
        named = metadata("nearer").get_all("Provides-Extra") or []
    except PackageNotFoundError:
        return []
    return [extra for extra in named if extra not in COLLECTIONS]


def _requirements(extra: str) -> list[Requirement]:
    """What the package needs here, or what one of its extras adds."""
    from packaging.requirements import Requirement

    try:
        every = [Requirement(line) for line in requires("nearer") or []]
    except PackageNotFoundError:
        return []
    if not extra:
        return [one for one in every if one.marker is None or one.marker.evaluate({"extra": ""})]
    return [one for one in every if one.marker and one.marker.evaluate({"extra": extra}) and "extra" in str(one.marker)]


def _fault(requirement: Requirement) -> str:
    """What is wrong with an installed package; empty if nothing is."""
    try:
        found = version(requirement.name)
    except PackageNotFoundError:
        return f"{requirement.name} is not installed"
    if found is None or not requirement.specifier.contains(found, prereleases=True):
        return f"{requirement.name} {found} is installed, {requirement.specifier} is needed"
    return ""


def _line(requirement: Requirement) -> str:
    return f"{requirement.name}{requirement.specifier}"
