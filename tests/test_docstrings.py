"""The examples in docstrings run, every method that a user can choose has one, and each docstring stands alone."""

import ast
import doctest
from importlib import import_module
from pathlib import Path

import pytest

from indubio import evaluation
from indubio.calibration import CALIBRATIONS
from indubio.decision import REFERRALS
from indubio.judging import CONVERSIONS
from indubio.networks import LIKELIHOODS
from indubio.posteriors import POSTERIORS

PACKAGES = Path(__file__).parents[1] / "packages"
# Only what has examples is imported: the rest may need an extra that is not installed.
MODULES = [
    ".".join(path.relative_to(PACKAGES).with_suffix("").parts[2:]).removesuffix(".__init__")
    for path in sorted(PACKAGES.rglob("*.py"))
    if ">>> " in path.read_text()
]
CHOICES = {
    one.__qualname__: one
    for listed in (POSTERIORS, CONVERSIONS, REFERRALS, LIKELIHOODS, CALIBRATIONS)
    for one in listed.values()
} | {
    name: getattr(evaluation, name)
    for name in evaluation.__all__
    if callable(getattr(evaluation, name)) and name[0].islower()
}


@pytest.mark.parametrize("module", MODULES)
def test_the_examples_of_a_module_give_what_they_say(module):
    said: list[str] = []
    runner = doctest.DocTestRunner(verbose=False)
    for example in doctest.DocTestFinder(exclude_empty=True).find(import_module(module)):
        runner.run(example, out=said.append)
    assert runner.tries, f"{module} has no example that doctest finds"
    assert not runner.failures, "".join(said)


@pytest.mark.parametrize("name", CHOICES)
def test_what_can_be_chosen_has_an_example(name):
    assert ">>> " in (CHOICES[name].__doc__ or "")


def test_no_docstring_leans_on_the_one_above_it():
    leaning = [
        f"{path.relative_to(PACKAGES)}: {node.name}"
        for path in sorted(PACKAGES.rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
        if (ast.get_docstring(node) or "").startswith("The same")
    ]
    assert not leaning
