"""The files that a project has beside its code agree with the code, with the Makefile and with each other."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from nearer.methods import METHODS

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")
GITHUB = ROOT / ".github"
WORKFLOWS = sorted((GITHUB / "workflows").glob("*.yml"))
FORMS = sorted(path for path in (GITHUB / "ISSUE_TEMPLATE").glob("*.yml") if path.name != "config.yml")
PROSE = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "CHANGELOG.md",
    ROOT / "SECURITY.md",
    GITHUB / "PULL_REQUEST_TEMPLATE.md",
]
FIELDS = {"markdown", "textarea", "input", "dropdown", "checkboxes"}  # GitHub knows these in a form
CHANGES = {"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"}  # Keep a Changelog knows these


def load(path: Path) -> dict[str, Any]:
    found = yaml.safe_load(path.read_text(encoding="utf-8"))
    assert isinstance(found, dict), path
    return found


def targets() -> set[str]:
    """What `make` can be asked for."""
    return set(re.findall(r"^([a-z][a-z-]*):(?!=)", MAKEFILE, re.MULTILINE))


def asked_of_make(text: str) -> set[str]:
    """The targets of all `make …` in a text where it is code: at the start of a line or of backticks."""
    return set(re.findall(r"(?:^\s*(?:- run: |run: )?|`)make ([a-z][a-z-]*)", text, re.MULTILINE))


def jobs() -> Iterator[tuple[str, dict[str, Any]]]:
    for path in WORKFLOWS:
        for name, job in load(path)["jobs"].items():
            yield f"{path.name}: {name}", job


def python_versions() -> list[str]:
    """Those that the package says it runs on."""
    form = re.compile(r"Programming Language :: Python :: (3\.\d+)")
    return [found[1] for line in PROJECT["classifiers"] if (found := form.fullmatch(line))]


class TestMake:
    def test_targets_are_found(self) -> None:
        assert {"setup", "test", "check", "docs", "wheel-test", "coverage", "test-lowest"} <= targets()
        assert asked_of_make("make a\n`make b-c` x\n- run: make d\nmade make e\n") == {"a", "b-c", "d"}

    def test_all_are_phony(self) -> None:
        [phony] = re.findall(r"^\.PHONY: (.*)", MAKEFILE, re.MULTILINE)
        assert set(phony.split()) == targets()

    @pytest.mark.parametrize("path", [*WORKFLOWS, *PROSE], ids=lambda path: path.name)
    def test_what_is_asked_of_it_is_there(self, path: Path) -> None:
        asked = asked_of_make(path.read_text(encoding="utf-8"))
        assert asked <= targets()
        assert asked or path.name in ("SECURITY.md",)

    def test_every_command_of_a_workflow_is_make(self) -> None:
        """What a workflow does can be done by hand."""
        commands = [(job, step["run"]) for job, found in jobs() for step in found["steps"] if "run" in step]
        assert commands
        assert [found for found in commands if not re.fullmatch(r"make [a-z-]+", found[1])] == []


class TestWorkflows:
    def test_together_they_do_everything(self) -> None:
        asked = {step.get("run", "").removeprefix("make ") for _, job in jobs() for step in job["steps"]}
        assert {"check", "test", "test-lowest", "docs", "wheel-test", "coverage"} <= asked

    def test_tests_run_on_every_python_and_processor(self) -> None:
        matrix = load(GITHUB / "workflows" / "tests.yml")["jobs"]["tests"]["strategy"]["matrix"]
        assert matrix["python"] == python_versions()
        assert matrix["os"] == ["ubuntu-24.04", "ubuntu-24.04-arm"]

    def test_python_is_one_that_the_package_names(self) -> None:
        named = {
            step["with"]["python-version"]
            for _, job in jobs()
            for step in job["steps"]
            if step.get("uses", "").startswith("actions/setup-python@")
        }
        assert named - {"${{ matrix.python }}"} <= set(python_versions())

    @pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
    def test_they_may_read_only_and_end(self, path: Path) -> None:
        workflow = load(path)
        assert workflow["permissions"] == {"contents": "read"}
        assert all(job["timeout-minutes"] <= 180 for job in workflow["jobs"].values())
        assert "pull_request" in workflow[True]  # YAML takes `on` for true

    def test_actions_have_a_version(self) -> None:
        used = {step["uses"] for _, job in jobs() for step in job["steps"] if "uses" in step}
        assert used
        assert [action for action in used if not re.fullmatch(r"actions/[\w-]+@v\d+", action)] == []


class TestPython:
    def test_the_lowest_version_is_the_first_that_is_named(self) -> None:
        assert PROJECT["requires-python"] == f">={python_versions()[0]}"
        assert python_versions() == sorted(python_versions(), key=lambda version: int(version.split(".")[1]))

    def test_documents_name_the_same(self) -> None:
        first, last = python_versions()[0], python_versions()[-1]
        assert f"Python {first} to {last}" in (ROOT / "docs" / "reliability.md").read_text(encoding="utf-8")
        for name in ("README.md", "CONTRIBUTING.md"):
            assert f"Python {first} or later" in (ROOT / name).read_text(encoding="utf-8")


class TestPreCommit:
    HOOKS = load(ROOT / ".pre-commit-config.yaml")["repos"]

    def test_its_tools_are_those_of_make_check(self) -> None:
        [local] = self.HOOKS
        assert local["repo"] == "local"
        used = [hook["entry"].replace(" --force-exclude", "") for hook in local["hooks"]]
        [recipe] = re.findall(r"^check: .*\n((?:\t.*\n)+)", MAKEFILE, re.MULTILINE)
        checked = [line.split(" src")[0].strip().replace("$(BIN)", ".venv/bin") for line in recipe.splitlines()]
        assert used == checked

    def test_they_are_pinned(self) -> None:
        pinned = (ROOT / "constraints.txt").read_text(encoding="utf-8")
        for tool in ("ruff", "mypy", "pre-commit"):
            assert re.search(rf"^{tool}==", pinned, re.MULTILINE)


class TestCitation:
    CITATION = load(ROOT / "CITATION.cff")

    def test_it_has_what_the_format_needs(self) -> None:
        assert {"cff-version", "message", "title", "authors"} <= set(self.CITATION)
        assert self.CITATION["cff-version"] == "1.2.0"

    def test_it_is_of_this_version(self) -> None:
        assert self.CITATION["version"] == PROJECT["version"]
        assert self.CITATION["license"] == PROJECT["license"]
        assert self.CITATION["repository-code"] == PROJECT["urls"]["Homepage"]

    def test_it_has_the_papers_of_all_methods(self) -> None:
        cited = [
            (
                paper["title"],
                tuple(f"{author['family-names']}, {author['given-names']}" for author in paper["authors"]),
                paper.get("collection-title", paper.get("journal")),
                paper["year"],
            )
            for paper in self.CITATION["references"]
        ]
        papers = [method.facts.paper for method in METHODS.values()]
        assert cited == [(paper.title, paper.authors, paper.venue, paper.year) for paper in papers]


class TestForms:
    def test_both_are_there(self) -> None:
        assert [path.stem for path in FORMS] == ["bug", "method"]

    @pytest.mark.parametrize("path", FORMS, ids=lambda path: path.stem)
    def test_github_can_read_it(self, path: Path) -> None:
        form = load(path)
        assert {"name", "description", "body"} <= set(form)
        asked = [field for field in form["body"] if field["type"] != "markdown"]
        assert {field["type"] for field in form["body"]} <= FIELDS
        assert len({field["id"] for field in asked}) == len(asked)
        assert all(field["attributes"]["label"] for field in asked)
        for field in asked:
            if field["type"] in ("dropdown", "checkboxes"):
                options = field["attributes"]["options"]
                kind = dict if field["type"] == "checkboxes" else str
                assert all(isinstance(option, kind) for option in options)  # `yes` without quotes is no text

    def test_security_problems_are_sent_elsewhere(self) -> None:
        [link] = load(GITHUB / "ISSUE_TEMPLATE" / "config.yml")["contact_links"]
        assert link["url"] in (ROOT / "SECURITY.md").read_text(encoding="utf-8")


class TestProse:
    def test_links_lead_somewhere(self) -> None:
        lost = [
            f"{path.name}: {link}"
            for path in PROSE
            for link in re.findall(r"\]\((?!https?:)([^)#]+)", path.read_text(encoding="utf-8"))
            if not (path.parent / link).exists()
        ]
        assert lost == []

    def test_one_address(self) -> None:
        home = PROJECT["urls"]["Homepage"]
        assert all(address.startswith(home) for address in PROJECT["urls"].values())
        files = [*PROSE, *FORMS, GITHUB / "ISSUE_TEMPLATE" / "config.yml", ROOT / "CITATION.cff"]
        found = {
            address
            for path in files
            for address in re.findall(r"https://github\.com/[\w-]+/[\w-]+", path.read_text(encoding="utf-8"))
        }
        assert found == {home}

    def test_the_changelog_has_this_version(self) -> None:
        text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
        versions = re.findall(r"^## \[?([\w.]+)\]?", text, re.MULTILINE)
        assert versions[0] == "Unreleased"
        assert versions[1] == PROJECT["version"]
        assert set(re.findall(r"^### (.*)", text, re.MULTILINE)) <= CHANGES
