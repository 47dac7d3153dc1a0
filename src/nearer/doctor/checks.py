"""All checks, in the order in which they are shown."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

from nearer.doctor import installation, models_and_data
from nearer.doctor.findings import Check, Finding, State, carry_out
from nearer.extras import reinstall_command
from nearer.storage.cache import CACHE_VARIABLE

REINSTALL = f"install nearer again: {reinstall_command()}"
TORCH_AGAIN = "install torch again (https://pytorch.org/get-started has the line for this machine)"
LOOK_AT_MODELS = f"look at the folders in ${models_and_data.MODELS_VARIABLE}"
OTHER_CACHE = f"name a folder that can be written: export {CACHE_VARIABLE}=FOLDER"


def all_checks(data: Path | None, online: bool) -> list[Check]:
    checks = [
        Check("Python", installation.check_python, REINSTALL),
        Check("packages", installation.check_packages, REINSTALL),
        Check("torch", installation.check_torch, TORCH_AGAIN),
        Check("CPU", installation.check_processor, "nothing to be done"),
        Check("memory", installation.check_memory, "nothing to be done"),
        Check("threads", installation.check_threads, TORCH_AGAIN, needs_torch=True),
        Check("GPU", installation.check_gpus, TORCH_AGAIN, needs_torch=True),
        Check("bundled model", models_and_data.check_bundled_model, REINSTALL, needs_torch=True),
        Check("cache", models_and_data.check_cache, OTHER_CACHE),
        Check("token stores", models_and_data.check_token_stores, OTHER_CACHE),
        Check("vector stores", models_and_data.check_vector_stores, OTHER_CACHE),
        Check("disk", models_and_data.check_disk, OTHER_CACHE),
        Check("models", models_and_data.check_model_folders, LOOK_AT_MODELS),
    ]
    if data is not None:
        mend = f"look at {data}: `nearer data check {data}` says more"
        checks.append(Check("data", partial(models_and_data.check_data_folder, data), mend, needs_torch=True))
    if online:
        checks.append(Check("hub", models_and_data.check_hub, models_and_data.HUB_MEND))
    return [*checks, Check("extras", installation.check_extras, REINSTALL)]


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
