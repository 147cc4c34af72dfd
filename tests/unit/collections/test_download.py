"""Downloads, against a real HTTP server on this machine."""

import hashlib
import io
import re
import subprocess
import sys
import threading
import time
import zipfile
from collections import Counter
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest
from scipy.io import savemat

from indubio.errors import ConfigError, DownloadError
from indubio_lab.collections import DATASETS, Archive, CollectionFile, cache_folder, data_folder, fetch, find, odds
from indubio_lab.collections.download import ATTEMPTS
from indubio_lab.collections.odds_collection import FILES

CONTENT = bytes(range(256)) * 4000
SHA256 = hashlib.sha256(CONTENT).hexdigest()
CLOSED = "http://127.0.0.1:9/cardio.mat"  # the discard port: nobody listens


class Server(ThreadingHTTPServer):
    """What it sends depends on the first part of the path; it counts what it was asked for."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.content: dict[str, bytes] = {"cardio.mat": CONTENT}
        self.asked: Counter[str] = Counter()

    def address(self, manner: str, name: str = "cardio.mat") -> str:
        return f"http://127.0.0.1:{self.server_port}/{manner}/{name}"


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        _, manner, name = self.path.split("/")
        self.server.asked[manner] += 1
        content = self.server.content[name]
        if manner == "missing":
            self.send_error(404)
            return
        self.send_response(200)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if manner == "wrong":
            content = content[::-1]
        if manner == "broken" or (manner == "flaky" and self.server.asked[manner] == 1):
            content = content[: len(content) // 2]  # and the connection is closed
        for start in range(0, len(content), 1 << 16):
            self.wfile.write(content[start : start + (1 << 16)])
            if manner == "slow":
                time.sleep(0.05)

    def log_message(self, *_: object) -> None:
        """Keep quiet."""


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as running:
        thread = threading.Thread(target=running.serve_forever, args=(0.01,))
        thread.start()
        yield running
        running.shutdown()
        thread.join()


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("INDUBIO_DATA", raising=False)
    monkeypatch.setenv("INDUBIO_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    return tmp_path / "cache"


def file_at(*addresses: str, sha256: str | None = SHA256) -> CollectionFile:
    return CollectionFile(path="odds/cardio.mat", sha256=sha256, addresses=addresses)


def left_behind(cache: Path) -> list[str]:
    return sorted(path.name for path in cache.rglob("*") if path.is_file())


def zipped(**members: bytes) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for name, content in members.items():
            archive.writestr(f"some folder/{name}.txt", content)
    return packed.getvalue()


def test_a_good_file_is_downloaded_once_and_then_taken_from_the_cache(server, cache):
    file = file_at(server.address("good"))
    assert find(file) is None
    for _ in range(2):
        assert fetch(file) == cache / "odds" / "cardio.mat"
    assert find(file) == cache / "odds" / "cardio.mat"
    assert (cache / "odds" / "cardio.mat").read_bytes() == CONTENT
    assert server.asked == {"good": 1}
    assert left_behind(cache) == ["cardio.mat"]


def test_a_local_folder_goes_before_the_cache_and_the_argument_before_the_variable(server, tmp_path, monkeypatch):
    file = file_at(server.address("good"))
    for name in ("argument", "variable"):
        (tmp_path / name / "odds").mkdir(parents=True)
        (tmp_path / name / "odds" / "cardio.mat").write_text(name)
    monkeypatch.setenv("INDUBIO_DATA", str(tmp_path / "variable"))
    assert fetch(file).read_text() == "variable"
    assert fetch(file, folder=tmp_path / "argument").read_text() == "argument"
    assert server.asked == {}


def test_what_a_local_folder_lacks_is_downloaded(server, tmp_path, cache):
    (tmp_path / "mine").mkdir()
    assert fetch(file_at(server.address("good")), folder=tmp_path / "mine") == cache / "odds" / "cardio.mat"


def test_a_folder_that_does_not_exist_is_refused_by_the_name_it_came_by(tmp_path, monkeypatch):
    with pytest.raises(ConfigError, match=r"`folder` must be an existing folder, got '.*nowhere'"):
        data_folder(tmp_path / "nowhere")
    monkeypatch.setenv("INDUBIO_DATA", str(tmp_path / "nowhere"))
    with pytest.raises(ConfigError, match="INDUBIO_DATA must be an existing folder"):
        data_folder()


def test_a_wrong_checksum_is_refused_and_nothing_is_kept(server, cache):
    with pytest.raises(DownloadError, match=r"/wrong/cardio\.mat \(does not match its checksum\)"):
        fetch(file_at(server.address("wrong")))
    assert server.asked == {"wrong": 1}
    assert left_behind(cache) == []


def test_a_broken_transfer_is_started_again(server, cache):
    assert fetch(file_at(server.address("flaky"))).read_bytes() == CONTENT
    assert server.asked == {"flaky": 2}
    assert left_behind(cache) == ["cardio.mat"]


@pytest.mark.parametrize("sha256", [SHA256, None])
def test_a_transfer_that_keeps_breaking_leaves_nothing_behind(sha256, server, cache):
    with pytest.raises(DownloadError, match=r"/broken/cardio\.mat \(the transfer broke off\)"):
        fetch(file_at(server.address("broken"), sha256=sha256))
    assert server.asked == {"broken": ATTEMPTS}
    assert left_behind(cache) == []


@pytest.mark.parametrize("first", ["wrong", "broken", "missing"])
def test_the_second_mirror_is_used_after_the_first_fails(first, server):
    assert fetch(file_at(server.address(first), server.address("good"))).read_bytes() == CONTENT
    assert server.asked["good"] == 1


def test_offline_the_error_names_the_file_the_addresses_and_where_to_put_it(cache):
    addresses = CLOSED, "http://no-such-host.invalid/cardio.mat"
    with pytest.raises(DownloadError) as error:
        fetch(file_at(*addresses))
    assert str(error.value) == (
        "odds/cardio.mat is not in a local folder (INDUBIO_DATA is not set) and could not be downloaded: "
        f"{addresses[0]} (no connection); {addresses[1]} (no connection). "
        f"Get it and put it at {cache}/odds/cardio.mat, "
        "or put the file at odds/cardio.mat in a folder of yours that INDUBIO_DATA names."
    )


def test_a_missing_file_is_reported_with_the_status(server, tmp_path):
    with pytest.raises(DownloadError, match=re.escape(f"is not in {tmp_path} and")) as error:
        fetch(file_at(server.address("missing")), folder=tmp_path)
    assert "(404 Client Error: Not Found)" in str(error.value)


def test_a_damaged_file_in_the_cache_is_fetched_again(server, cache):
    (cache / "odds").mkdir(parents=True)
    (cache / "odds" / "cardio.mat").write_bytes(CONTENT[:100])
    file = file_at(server.address("good"))
    assert find(file) is None
    assert fetch(file).read_bytes() == CONTENT


def test_a_cache_that_cannot_be_written_is_reported_with_the_way_out(server, tmp_path, monkeypatch):
    (tmp_path / "taken").write_text("a file, not a folder")
    monkeypatch.setenv("INDUBIO_CACHE", str(tmp_path / "taken"))
    with pytest.raises(
        DownloadError, match=r"cardio\.mat cannot be written .* Set INDUBIO_CACHE to a folder with room for it"
    ):
        fetch(file_at(server.address("good")))


def test_processes_that_download_at_once_all_get_the_whole_file(server, cache):
    script = (
        "import sys; from indubio_lab.collections import CollectionFile, fetch\n"
        f"file = CollectionFile(path='odds/cardio.mat', sha256={SHA256!r}, addresses=(sys.argv[1],))\n"
        "print(len(fetch(file).read_bytes()))"
    )
    command = [sys.executable, "-c", script, server.address("slow")]
    running = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    assert [process.communicate(timeout=60)[0].strip() for process in running] == [str(len(CONTENT))] * 2
    assert (cache / "odds" / "cardio.mat").read_bytes() == CONTENT
    assert left_behind(cache) == ["cardio.mat"]


def test_members_of_an_archive_come_from_one_download(server, cache):
    server.content["data.zip"] = zipped(TS1=b"1\t2\n", PS1=b"3\t4\n")
    archive = Archive(name="zema.zip", addresses=(server.address("good", "data.zip"),))
    known = CollectionFile(path="zema/TS1.txt", sha256=hashlib.sha256(b"1\t2\n").hexdigest(), archive=archive)
    unknown = CollectionFile(path="zema/PS1.txt", archive=archive)
    assert fetch(known).read_bytes() == b"1\t2\n"
    assert fetch(unknown) == cache / "zema" / "PS1.txt"
    assert server.asked == {"good": 1}
    assert left_behind(cache) == ["PS1.txt", "TS1.txt", "zema.zip"]


def test_an_archive_put_into_the_cache_by_hand_is_used(cache):
    (cache / "zema").mkdir(parents=True)
    (cache / "zema" / "zema.zip").write_bytes(zipped(TS1=b"1\t2\n"))
    file = CollectionFile(path="zema/TS1.txt", archive=Archive(name="zema.zip", addresses=(CLOSED,)))
    assert fetch(file).read_bytes() == b"1\t2\n"


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (zipped(TS1=b"other"), r"TS1\.txt in the archive does not match its checksum"),
        (zipped(TS2=b"1\t2\n"), r"0 files named TS1\.txt in the archive, not 1"),
        (zipped(TS1=b"1\t2\n").replace(b"1\t2\n", b"1\t3\n"), "not a whole zip archive"),
        (b"<html>sign in</html>", "not a whole zip archive"),
    ],
)
def test_a_wrong_archive_is_refused_not_kept_and_the_next_mirror_used(content, reason, server, cache):
    server.content["old.zip"] = content
    server.content["data.zip"] = zipped(TS1=b"1\t2\n")
    first, second = server.address("good", "old.zip"), server.address("good", "data.zip")
    digest = hashlib.sha256(b"1\t2\n").hexdigest()

    def file(*addresses: str) -> CollectionFile:
        archive = Archive(name="zema.zip", addresses=addresses)
        return CollectionFile(path="zema/TS1.txt", sha256=digest, archive=archive)

    with pytest.raises(DownloadError, match=rf"\({reason}\)\. Get the zip and put it at .*zema\.zip"):
        fetch(file(first))
    assert left_behind(cache) == []
    assert fetch(file(first, second)).read_bytes() == b"1\t2\n"


def test_a_progress_bar_is_shown_only_when_asked_for_or_on_a_terminal(server, capsys):
    fetch(file_at(server.address("good")))
    assert capsys.readouterr().err == ""
    fetch(CollectionFile(path="odds/other.mat", sha256=SHA256, addresses=(server.address("slow"),)), progress=True)
    assert "other.mat" in capsys.readouterr().err


def test_the_cache_is_the_users_unless_the_variable_names_another(cache, monkeypatch):
    assert cache_folder() == cache
    monkeypatch.delenv("INDUBIO_CACHE")
    assert cache_folder().name == "indubio"


def test_a_task_loads_from_a_download_alone(server, tmp_path, monkeypatch):
    savemat(tmp_path / "made.mat", {"X": np.eye(10)[:, :8], "y": np.repeat([[0], [1]], [6, 4], axis=0)})
    server.content["pima.mat"] = (tmp_path / "made.mat").read_bytes()
    digest = hashlib.sha256(server.content["pima.mat"]).hexdigest()
    made = CollectionFile(path="odds/pima.mat", sha256=digest, addresses=(CLOSED, server.address("good", "pima.mat")))
    monkeypatch.setitem(FILES, "pima", made)
    assert odds("pima").test_anomalies.shape == (4, 8)


def test_every_public_address_is_encrypted():
    for collection in DATASETS.values():
        for file in collection.files:
            assert all(address.startswith("https://") for address in (file.archive or file).addresses)
