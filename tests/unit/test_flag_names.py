"""Errors on the command line name flags: every parameter that a message names has one, or a reason to have none."""

import ast
import re
from pathlib import Path

import pytest
import typer.main

import indubio
from indubio.cli.app import app
from indubio.cli.flag_names import FLAGS, SWITCHES, with_flags

SOURCE = Path(indubio.__file__).parent
ELSEWHERE = ("server", "paper", "collections", "ensemble", "evaluation", "plots")  # not read from flags

# Keys of the configuration file (`indubio config`), which go by these names there.
IN_THE_FILE = {
    "alpha", "architecture", "by", "channels", "code_heads", "delta", "device", "good", "held_out", "highest",
    "highest_noise", "images", "kernels", "layout", "learning_rate", "lowest", "lowest_noise", "quantiles", "scale",
    "short", "strides", "table", "training", "units", "windowing", "noise", "layer_norm", "per",
    "reference", "unseen", "last_activation", "clip", "share", "members", "bootstrap", "threshold",
}  # fmt: skip

# Of functions that the command line calls with values it made itself, or not at all.
NOT_REACHABLE = {
    "assess", "constant", "detector", "fit", "fitted", "input_shape_", "k", "largest_reference_nll", "level",
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
    known = FLAGS.keys() | {switch.split("=")[0] for switch in SWITCHES} | IN_THE_FILE | NOT_REACHABLE
    unknown = sorted(one for one in named if one[0] not in known)
    assert not unknown, "give it a flag in cli/flag_names.py, or name it here"


def test_every_flag_exists():
    def options(command):
        for parameter in command.params:
            yield from (*parameter.opts, *parameter.secondary_opts)
        for inner in getattr(command, "commands", {}).values():
            yield from options(inner)

    there = set(options(typer.main.get_command(app)))
    assert {*FLAGS.values(), *SWITCHES.values()} <= there


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ('Drop them or pass missing="median".', "Drop them or pass --missing median."),
        ("Take a smaller `length`.", "Take a smaller --window."),
        ("or pass `spectra=False`.", "or pass --no-spectra."),
        ('gaps="hold" or "linear"', '--gaps hold or "linear"'),
        ("it has `kernels` in the file", "it has `kernels` in the file"),
        ("Pass `skip_lines=3`.", "Pass --skip-lines 3."),
        ('Pass decimal="," or thousands=",".', "Pass --decimal , or --thousands ,."),
        ('column "rate" of group=7', 'column "rate" of group=7'),
    ],
)
def test_parameters_become_flags(said, told):
    assert with_flags(said) == told
