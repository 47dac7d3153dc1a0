"""All checks, in the order in which they are shown."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

from nearer.doctor import data_folder, hub, installation, machine, model_folders, self_test, stores
from nearer.doctor.finding import Check, Finding, State, carry_out
from nearer.extras import reinstall_command
from nearer.text.cache import CACHE_VARIABLE

REINSTALL = f"install nearer again: {reinstall_command()}"
TORCH_AGAIN = "install torch again (https://pytorch.org/get-started has the line for this machine)"
OTHER_CACHE = f"name a folder that can be written: export {CACHE_VARIABLE}=FOLDER"


def all_checks(data: Path | None, online: bool) -> list[Check]:
    checks = [
        Check("Python", installation.python, REINSTALL),
        Check("packages", installation.packages, REINSTALL),
        Check("torch", machine.torch_build, TORCH_AGAIN),
        Check("CPU", machine.processor, "nothing to be done"),
        Check("memory", machine.memory, "nothing to be done"),
        Check("threads", machine.threads, TORCH_AGAIN, needs_torch=True),
        Check("GPU", machine.gpus, TORCH_AGAIN, needs_torch=True),
        Check("bundled model", self_test.bundled_model, REINSTALL, needs_torch=True),
        Check("cache", stores.cache, OTHER_CACHE),
        Check("token stores", stores.token_stores, OTHER_CACHE),
        Check("vector stores", stores.vector_stores, OTHER_CACHE),
        Check("disk", stores.disk, OTHER_CACHE),
        Check("models", model_folders.model_folders, f"look at the folders in ${model_folders.MODELS_VARIABLE}"),
    ]
    if data is not None:
        mend = f"look at {data}: `nearer data check {data}` says more"
        checks.append(Check("data", partial(data_folder.data_folder, data), mend, needs_torch=True))
    if online:
        checks.append(Check("hub", hub.reachable, hub.MEND))
    return [*checks, Check("extras", installation.extras, REINSTALL)]


def examine(data: Path | None = None, *, online: bool = False) -> Iterator[Finding]:
    """Carry out all checks, one after the other. data: a folder of the published sets; online: ask the hub as well."""
    torch_works = True
    for check in all_checks(data, online):
        if check.needs_torch and not torch_works:
            yield Finding(check.name, State.absent, "not looked at, since torch does not work")
            continue
        findings = carry_out(check)
        if check.name == "torch":
            torch_works = all(finding.state is not State.broken for finding in findings)
        yield from findings
