"""For TLS: a certificate that tests make for themselves, and what a client says first."""

import contextlib
import shutil
import ssl
import subprocess
from pathlib import Path

import pytest


def self_signed(folder: Path) -> tuple[Path, Path]:
    """A certificate for 127.0.0.1 and its private key."""
    if shutil.which("openssl") is None:
        pytest.skip("openssl, which makes the certificate, is not installed here")
    certificate, key = folder / "certificate.pem", folder / "key.pem"
    made = "req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost -addext subjectAltName=IP:127.0.0.1"
    files = ["-keyout", str(key), "-out", str(certificate)]
    subprocess.run(["openssl", *made.split(), *files], check=True, capture_output=True)
    return certificate, key


def client_hello() -> bytes:
    """The first message of a handshake, as the client of this computer sends it."""
    outgoing = ssl.MemoryBIO()
    client = ssl.create_default_context().wrap_bio(ssl.MemoryBIO(), outgoing, server_hostname="localhost")
    with contextlib.suppress(ssl.SSLWantReadError):
        client.do_handshake()
    return outgoing.read()
