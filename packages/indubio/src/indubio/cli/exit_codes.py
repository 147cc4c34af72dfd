"""Exit codes: the one list of them, which `indubio --help` prints."""

from enum import IntEnum


class ExitCode(IntEnum):
    """What a command ends with."""

    FINE = 0
    FAILED = 1
    USAGE = 2
    FOUND = 3
    INCOMPLETE = 4
    UNPROVEN = 5
    INTERRUPTED = 130


MEANINGS = {
    ExitCode.FINE: "fine",
    ExitCode.FAILED: "failure",
    ExitCode.USAGE: "wrong usage",
    ExitCode.FOUND: "`assess --fail-on` found what it looked for",
    ExitCode.INCOMPLETE: "files that workers could not assess and put aside, or an audit trail that is not whole",
    ExitCode.UNPROVEN: "an audit trail in which nothing was found, but whose end nothing proves",
    ExitCode.INTERRUPTED: "stopped by Ctrl-C",
}


def exit_codes() -> str:
    """All of them in a sentence."""
    return f"Exit codes: {'; '.join(f'{code.value} {meaning}' for code, meaning in MEANINGS.items())}."
