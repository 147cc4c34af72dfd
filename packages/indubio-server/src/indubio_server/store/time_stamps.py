"""Time stamps of RFC 3161: an authority's word that a head of the trail was there at some time.

The `openssl` command makes requests and checks replies; what is stamped is the hash of the trail's last entry.
"""

import os
import re
import subprocess
import tempfile
from pathlib import Path

from indubio.errors import ConfigError, StoreError
from indubio_server.store.audit_trail import Head


def stamp_request(head: Head) -> bytes:
    """A request to a time stamp authority, as it is sent to one."""
    asked = _openssl("-query", "-digest", head.hash, "-sha256", "-cert")
    if asked.returncode:
        raise StoreError(f"openssl could not make the request: {_words(asked)}")
    return asked.stdout


def stamp_finding(head: Head, reply: Path, authority: Path) -> str | None:
    """What is wrong with a reply; None where the authority stamped this head.

    Args:
        head: that was stamped.
        reply: the authority's answer.
        authority: certificates that are trusted, in PEM.
    """
    for path in (reply, authority):
        if not path.is_file():
            raise ConfigError(f"there is no file {path}.")
    checked = _openssl("-verify", "-digest", head.hash, "-in", str(reply), "-CAfile", str(authority))
    return f"{reply} is no time stamp of entry {head.seq}: {_words(checked)}" if checked.returncode else None


def stamped_at(reply: Path) -> str:
    """The time that a reply gives, as the authority wrote it."""
    text = _openssl("-reply", "-in", str(reply), "-text").stdout.decode(errors="replace")
    found = re.search(r"^Time stamp: (.+)$", text, re.MULTILINE)
    return found[1] if found else "unknown"


def _openssl(*arguments: str) -> "subprocess.CompletedProcess[bytes]":
    with tempfile.TemporaryDirectory(prefix="indubio-stamp-") as empty:
        try:
            return subprocess.run(
                ["openssl", "ts", *arguments], capture_output=True, check=False, env=_environment(empty)
            )
        except FileNotFoundError:
            raise StoreError("time stamps need the openssl command, and it is not installed here.") from None


def _environment(home: str) -> dict[str, str]:
    """The search path alone, and a place for what openssl writes: nothing of the user's settings changes the result."""
    return {"PATH": os.environ.get("PATH", os.defpath), "HOME": home, "RANDFILE": f"{home}/rnd"}


def _words(done: "subprocess.CompletedProcess[bytes]") -> str:
    lines = [line.strip() for line in done.stderr.decode(errors="replace").splitlines() if line.strip()]
    said = [line.split(":")[-2] if line.count(":") > 4 else line for line in lines if "error:" in line]
    return f"{said[0] if said else ' '.join(lines[-1:]) or 'openssl failed'}."
