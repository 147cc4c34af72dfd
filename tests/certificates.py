"""A certificate that tests make for themselves."""

import shutil
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
