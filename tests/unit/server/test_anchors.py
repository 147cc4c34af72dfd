"""Heads that are kept elsewhere: a second file, an address, a real time stamp authority."""

import http.server
import json
import shutil
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from indubio.cli.app import app
from indubio.errors import ConfigError
from indubio_server import service as serving_service
from indubio_server.store import AnchorPlaces, Head, ServerStore, append, head, read_anchors
from tests.served import serving, table_model

END = Head(seq=3, hash="a" * 64)


class Witness(http.server.BaseHTTPRequestHandler):
    """Keeps what is posted; refuses the first."""

    posted: list[dict[str, object]]
    refuse: int

    def do_POST(self) -> None:
        content = json.loads(self.rfile.read(int(self.headers["content-length"])))
        cls = type(self)
        cls.refuse -= 1
        if cls.refuse < 0:
            cls.posted.append(content)
        self.send_response(503 if cls.refuse >= 0 else 204)
        self.end_headers()

    def log_message(self, *arguments: object) -> None:
        pass


@pytest.fixture
def witness() -> Iterator[tuple[type[Witness], str]]:
    kind = type("Kept", (Witness,), {"posted": [], "refuse": 1})
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), kind) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield kind, f"http://127.0.0.1:{server.server_port}/heads"
        server.shutdown()
        thread.join()


def run(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def test_what_failed_is_kept_the_next_time_and_nothing_twice(
    tmp_path: Path, witness: tuple[type[Witness], str]
) -> None:
    kept, url = witness
    places = AnchorPlaces([tmp_path / "a", tmp_path / "missing" / "b"], url)
    assert len(places.add(END)) == 2
    (tmp_path / "missing").mkdir()
    assert places.add(END) == []
    assert places.add(END) == []
    assert [read_anchors(tmp_path / name).heads for name in ("a", "missing/b")] == [(END,), (END,)]
    assert [(one["seq"], one["hash"]) for one in kept.posted] == [(3, "a" * 64)]


@pytest.mark.parametrize("url", ["file:///etc/passwd", "ftp://host/x", "heads", "http://"])
def test_heads_are_sent_over_http_alone(url: str) -> None:
    with pytest.raises(ConfigError, match="anchor_url"):
        AnchorPlaces([], url)


def test_a_server_keeps_its_head_elsewhere_too(
    tmp_path: Path,
    sqlite_store: ServerStore,
    witness: tuple[type[Witness], str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(serving_service, "ANCHOR_EVERY", 0.05)
    monkeypatch.setattr(serving_service, "ANCHOR_AGAIN", 0.05)
    table_model(tmp_path / "press")
    kept, url = witness
    elsewhere = tmp_path / "elsewhere.anchor"
    settings = {"anchor_file": str(elsewhere), "anchor_url": url}
    with serving(sqlite_store, {"press": tmp_path / "press"}, tmp_path / "state", **settings):
        pass
    end = sqlite_store.read(head)
    assert read_anchors(elsewhere).heads[-1] == end
    assert (kept.posted[-1]["seq"], kept.posted[-1]["hash"]) == (end.seq, end.hash)


SETTINGS = """
[tsa]
default_tsa = ours
[ours]
serial = {folder}/serial
signer_cert = {folder}/tsa.pem
signer_key = {folder}/tsa.key
signer_digest = sha256
default_policy = 1.2.3.4.1
digests = sha256
"""


class Authority:
    """A time stamp authority: openssl with a certificate of its own."""

    def __init__(self, folder: Path) -> None:
        self._folder, self.certificate = folder, folder / "tsa.pem"
        (folder / "serial").write_text("01\n")
        (folder / "tsa.cnf").write_text(SETTINGS.format(folder=folder))
        extension = "extendedKeyUsage=critical,timeStamping"
        made = ["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=Test authority"]
        self._openssl(*made, "-addext", extension, "-keyout", str(folder / "tsa.key"), "-out", str(self.certificate))

    def stamp(self, request: Path, reply: Path) -> None:
        settings = str(self._folder / "tsa.cnf")
        self._openssl("ts", "-reply", "-config", settings, "-queryfile", str(request), "-out", str(reply))

    def _openssl(self, *arguments: str) -> None:
        done = subprocess.run(["openssl", *arguments], capture_output=True, check=False)
        assert done.returncode == 0, done.stderr.decode()


@pytest.mark.skipif(shutil.which("openssl") is None, reason="the openssl command is not installed here")
def test_a_time_stamp_of_an_authority_proves_the_head(tmp_path: Path) -> None:
    state = tmp_path / "state"
    with ServerStore(f"sqlite:///{state / 'indubio.sqlite'}") as store:
        store.write(lambda c: append(c, "noted", {}))
    made = run("audit", "stamp", "--state", state, "--out", tmp_path / "head.tsq")
    kept = made.stdout.strip()
    ours, other = (tmp_path / name for name in ("ours", "other"))
    for folder in (ours, other):
        folder.mkdir()
    authority, stranger = Authority(ours), Authority(other)
    authority.stamp(tmp_path / "head.tsq", tmp_path / "head.tsr")
    stamp = ("--stamp", tmp_path / "head.tsr")
    good = run("audit", "verify", "--state", state, "--head", kept, *stamp, "--stamp-ca", authority.certificate)
    assert good.exit_code == 0, good.output
    assert "stamped" in good.stdout
    strange = run("audit", "verify", "--state", state, "--head", kept, *stamp, "--stamp-ca", stranger.certificate)
    assert strange.exit_code == 4
    assert "no time stamp of entry 1" in strange.stdout
    with ServerStore(f"sqlite:///{state / 'indubio.sqlite'}") as store:
        store.write(lambda c: append(c, "noted", {}))
    later = run("audit", "head", "--state", state).stdout.strip()
    wrong = run("audit", "verify", "--state", state, "--head", later, *stamp, "--stamp-ca", authority.certificate)
    assert wrong.exit_code == 4
    assert run("audit", "verify", "--state", state, *stamp).exit_code == 2
