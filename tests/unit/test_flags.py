"""Which flag gives a setting follows from the options that the commands declare."""

import pytest
import typer.main

from indubio.cli.app import app
from indubio.cli.flags import flag_of, flags_of

COMMANDS = typer.main.get_command(app).commands


@pytest.mark.parametrize(
    ("setting", "command", "flag"),
    [
        ("false_alarms", "fit", "--false-alarms"),
        ("windowing.length", "fit", "--window"),
        ("length", "fit", "--window"),
        ("anomaly_values", "fit", "--anomaly"),
        ("layout.sensors", "fit", "--columns"),
        ("processes", "fit", "--workers"),
        ("ids", "fit", "--id"),
        ("out", "fit", "--out"),
        ("fdr", "assess", "--fdr"),
        ("missing", "assess", "--missing"),
        ("referral.share", "fit", "--set referral.share"),
        ("gaps", "fit", "--set windowing.gaps"),
        ("drift_alpha", "assess", "--set drift_alpha"),
        ("workers.cluster", "benchmark", "--set workers.cluster"),
        ("share", "fit", None),  # of several tables
        ("anything", "fit", None),
        ("missing", "no such command", "--missing"),
    ],
)
def test_a_setting_has_the_flag_whose_declaration_names_it(setting, command, flag):
    assert flag_of(setting, command) == flag


@pytest.mark.parametrize("command", sorted(COMMANDS))
def test_every_flag_is_one_that_the_command_takes(command):
    there = {spelt for option in COMMANDS[command].params for spelt in option.opts}
    assert {flag.partition(" ")[0] for flag in flags_of(command).values()} <= there
