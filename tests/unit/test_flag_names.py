"""Errors on the command line name flags: every parameter that a message names has one, or a reason to have none."""

import ast
import re
from pathlib import Path

import pytest

import indubio
from indubio.cli.flag_names import SWITCHES, with_flags
from indubio.cli.flags import flag_of, settings_of

SOURCE = Path(indubio.__file__).parent
ELSEWHERE = ("server", "paper", "collections", "ensemble", "evaluation", "plots")  # not read from flags

# Of functions that the command line calls with values it made itself, or not at all.
NOT_REACHABLE = {
    "assess", "constant", "explain", "detector", "fit", "fitted", "input_shape_", "k", "largest_reference_nll", "level",
    "metric", "nll", "index", "of", "p", "parameters", "predictions", "prevalence", "refer_by", "reference_examples",
    "rejection_rates", "runs", "scores", "settings", "spread", "sums_", "suspects", "temperature", "times",
    "training_data", "update", "values", "verdict", "weights", "windows_at_once", "y", "keep_sums",
}  # fmt: skip


def messages():
    """Every text of an error or warning that is raised, with its file."""
    for path in sorted(SOURCE.rglob("*.py")):
        if path.relative_to(SOURCE).parts[0] in ELSEWHERE:
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            name = getattr(node.func, "id", getattr(node.func, "attr", "")) if isinstance(node, ast.Call) else ""
            if name.endswith(("Error", "Warning")):
                texts = [c.value for c in ast.walk(node) if isinstance(c, ast.Constant) and isinstance(c.value, str)]
                yield path.relative_to(SOURCE), "".join(texts)


def parameters(text):
    """Names of parameters in a message: `name`, name="value", name=True."""
    return {name or other for name, other in re.findall(r'`([a-z_]+)`|\b([a-z_]+)=(?:"|True|False)', text)}


def test_every_parameter_that_a_message_names_has_a_flag_or_a_reason_to_have_none():
    named = {(name, str(path)) for path, text in messages() for name in parameters(text)}
    assert len(named) > 50
    known = {switch.split("=")[0] for switch in SWITCHES} | NOT_REACHABLE
    commands = ("fit", "assess", "benchmark", "report")
    known |= {name.rpartition(".")[2] for command in commands for name in settings_of(command)}
    unknown = [
        one for one in named if one[0] not in known and not any(flag_of(one[0], command) for command in commands)
    ]
    assert not sorted(unknown), "give it a flag, or name it here"


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ('Drop them or pass missing="median".', "Drop them or pass --missing median."),
        ("Take a smaller `length`.", "Take a smaller --window."),
        ("or pass `spectra=False`.", "or pass --set spectra=false."),
        ('gaps="hold" or "linear"', '--set windowing.gaps=hold or "linear"'),
        ("it has `something` in the file", "it has `something` in the file"),
        ("Pass `skip_lines=3`.", "Pass --set file.skip_lines=3."),
        ('Pass decimal="," or thousands=",".', "Pass --set file.decimal=, or --set file.thousands=,."),
        ('column "rate" of group=7', 'column "rate" of group=7'),
    ],
)
def test_parameters_become_flags(said, told):
    assert with_flags(said) == told
