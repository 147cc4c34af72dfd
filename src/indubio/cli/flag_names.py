"""Errors name parameters of Python; on the command line they name flags.

One table says which parameter is which flag. What has no flag is named as it is in the configuration file, or cannot
go wrong on the command line; a test walks all messages and finds each name in one of the three lists.
"""

import re
from shlex import quote

FLAGS = {
    "anomaly": "--anomaly",
    "anomaly_score": "--score",
    "anomaly_values": "--anomaly",
    "buffer": "--buffer",
    "calibration": "--calibration",
    "categorical": "--categorical",
    "cluster": "--cluster",
    "columns": "--columns",
    "conversion": "--conversion",
    "costs": "--costs",
    "decimal": "--decimal",
    "draws": "--draws",
    "encoding": "--encoding",
    "epochs": "--epochs",
    "false_alarms": "--false-alarms",
    "fdr": "--fdr",
    "gaps": "--gaps",
    "group": "--group",
    "groups": "--group",
    "ids": "--id",
    "ignore": "--ignore",
    "label": "--label",
    "language": "--language",
    "length": "--window",
    "likelihood": "--likelihood",
    "longest_gap": "--longest-gap",
    "missing": "--missing",
    "most": "--suspects",
    "novelty_limit": "--novelty-limit",
    "overwrite": "--overwrite",
    "posterior": "--posterior",
    "processes": "--workers",
    "quality": "--quality",
    "range_margin": "--range-margin",
    "rate": "--rate",
    "scaling": "--scaling",
    "seed": "--seed",
    "sensors": "--columns",
    "separator": "--separator",
    "sheet": "--sheet",
    "skip_lines": "--skip-lines",
    "smallest_group": "--smallest-group",
    "spectra": "--spectra",
    "step": "--step",
    "tag": "--tag",
    "thousands": "--thousands",
    "time": "--time",
    "tls_ca": "--tls-ca",
    "tls_cert": "--tls-cert",
    "tls_key": "--tls-key",
    "top": "--top",
    "trimming": "--trim",
    "units_lines": "--units-lines",
    "value": "--value",
    "workers": "--workers",
}
SWITCHES = {"spectra=False": "--no-spectra", "overwrite=True": "--overwrite", "ordered=False": "--sort"}
QUOTES = '"'
_NAMED = re.compile(
    r'`?\b(?P<name>[a-z_]+)=(?P<value>"[^"]+"|True|False|\d+(?=`))`?'
    r"|`(?:data\.[a-z_]+\.)?(?P<bare>[a-z_]+)(?:\.kind)?`"
)


def with_flags(message: str) -> str:
    """The message with flags for parameters: --gaps hold for gaps="hold", --rate for `rate`."""

    def flag(found: re.Match[str]) -> str:
        name = found["name"] or found["bare"]
        if found["name"] and (switch := SWITCHES.get(f"{name}={found['value']}")):
            return switch
        if name not in FLAGS or found["value"] in ("True", "False"):
            return found[0]
        return FLAGS[name] if found["bare"] else f"{FLAGS[name]} {quote(found['value'].strip(QUOTES))}"

    return _NAMED.sub(flag, message)
