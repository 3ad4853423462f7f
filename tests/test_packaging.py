"""Recipes of environments, and what catalogues read, agree with pyproject.toml and constraints.txt."""

import re
import tomllib
from importlib.metadata import requires, version
from typing import Any

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

from fedshift import __version__
from tests.conftest import ROOT

PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS = PROJECT["optional-dependencies"]
PYTHON = re.search(r"\(Python (3\.\d+)\)", (ROOT / "constraints.txt").read_text())
EXACT = {
    canonicalize_name(name): exact
    for name, exact in re.findall(r"^([\w.-]+)==(\S+)$", (ROOT / "constraints.txt").read_text(), re.MULTILINE)
}
IMAGES = ("containers/Containerfile", "containers/fedshift.def")
RECIPES = (*IMAGES, "environment.yml")


def test_every_requirement_has_an_exact_version_that_meets_it() -> None:
    listed = [*PROJECT["dependencies"], *(one for extra in EXTRAS.values() for one in extra)]
    wanted = [one for one in map(Requirement, listed) if one.name != PROJECT["name"]]
    assert len(wanted) > 40
    unmet = [str(one) for one in wanted if EXACT.get(canonicalize_name(one.name), "0") not in one.specifier]
    assert not unmet


def test_what_these_require_has_one_too() -> None:
    """Of the new groups: what `pip install -c constraints.txt` would else choose freely."""
    open_: set[str] = set()
    seen: set[str] = set()
    todo = [Requirement(one).name for extra in ("site",) for one in EXTRAS[extra]]
    while todo:
        name = canonicalize_name(todo.pop())
        if name in seen:
            continue
        seen.add(name)
        if EXACT.get(name) != version(name):
            open_.add(name)
        needs = map(Requirement, requires(name) or ())
        todo += [need.name for need in needs if need.marker is None or need.marker.evaluate({"extra": ""})]
    assert "markdown" in seen and not open_


@pytest.mark.parametrize("recipe", RECIPES)
def test_a_recipe_has_the_python_of_the_constraints_and_groups_that_there_are(recipe: str) -> None:
    text = (ROOT / recipe).read_text()
    assert PYTHON and PYTHON[1] in SpecifierSet(PROJECT["requires-python"])
    (python,) = re.findall(r"python[=:](3\.\d+)", text)
    assert python == PYTHON[1]
    (groups,) = re.findall(r"-e '?\.\[([\w,]+)\]", text)
    assert set(groups.split(",")) < set(EXTRAS) and "dev" not in groups
    assert "-c constraints.txt" in text


@pytest.mark.parametrize("image", IMAGES)
def test_what_an_image_is_built_of_is_there_and_is_let_through(image: str) -> None:
    text = (ROOT / image).read_text()
    copied = re.findall(r"^ +(\S+) /opt/fedshift/", text, re.MULTILINE)
    for line in re.findall(r"^COPY (.+) \S+$", text, re.MULTILINE):
        copied += line.split()
    assert set(copied) == {"pyproject.toml", "constraints.txt", "README.md", "LICENSE", "src"}
    assert all((ROOT / name).exists() for name in copied)
    let_through = re.findall(r"^!(\S+)$", (ROOT / ".dockerignore").read_text(), re.MULTILINE)
    assert set(let_through) == set(copied)


def test_the_catalogue_names_a_profile_and_a_report_that_are_there() -> None:
    usage = yaml.safe_load((ROOT / ".snakemake-workflow-catalog.yml").read_text())["usage"]
    flag, profile = usage["mandatory-flags"]["flags"].split()
    assert flag == "--profile" and (ROOT / profile / "config.yaml").is_file()
    assert usage["report"] is ("report:" in (ROOT / "Snakefile").read_text())
    assert not any(usage["software-stack-deployment"].values())  # rules name no environment of their own
    assert not [path for path in (ROOT / "workflow").rglob("*.smk") if "conda:" in path.read_text()]


def test_citation_and_licence_are_the_project_s() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert citation["version"] == __version__ and citation["license"] == PROJECT["license"] == "MIT"
    assert (ROOT / "LICENSE").read_text().startswith("MIT License")
    assert f"## {__version__}" in (ROOT / "CHANGELOG.md").read_text()
