"""Errors name parameters of Python; on the command line they name flags.

Which parameter is which flag follows from the declarations of the commands, see `flags`.
"""

import re

from indubio.cli.flags import flag_of, flags_of, given_by

SWITCHES = {
    "overwrite=True": "--overwrite",
    "ordered=False": "--set layout.ordered=false",
    "spectra=False": "--set spectra=false",
}
QUOTES = '"'
_NAMED = re.compile(
    r'`?\b(?P<name>[a-z_]+)=(?P<value>"[^"]+"|True|False|\d+(?=`))`?'
    r"|`(?P<bare>[a-z_]+(?:\.[a-z_]+)*?)(?:\.kind)?`"
)


def with_flags(message: str, command: str = "fit") -> str:
    """The message with flags for parameters: --gaps hold for gaps="hold", --rate for `rate`.

    A command that takes a model reads files as the model does, and lacks the flags that say how: then it is said what
    to do instead.

    Args:
        message: that names parameters.
        command: that was called.
    """
    named: dict[str, None] = {}

    def flag(found: re.Match[str]) -> str:
        name = found["name"] or found["bare"]
        if found["name"] and (switch := SWITCHES.get(f"{name}={found['value']}")):
            named[switch] = None
            return switch
        known = flag_of(name, command)
        if known is None or found["value"] in ("True", "False"):
            return found[0]
        named[known] = None
        return known if found["bare"] else str(given_by(name, found["value"].strip(QUOTES), command))

    told = _NAMED.sub(flag, message)
    own = set(flags_of(command).values())
    lacking = [name for name in named if name not in own] if "--model" in own else []
    if not lacking:
        return told
    return (
        f"{told} ({', '.join(lacking)}: of `indubio fit`, and the model remembers it. Mend the file, or fit again with "
        "it.)"
    )
