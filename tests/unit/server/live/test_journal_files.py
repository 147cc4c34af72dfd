"""The journal and snapshots on disk: what was synced is there again, whatever a crash left behind."""

import numpy as np
import pytest

from indubio.errors import ConfigError, StoreError
from indubio_server.live import live_settings
from indubio_server.live.journal import Journal, JournalEntry
from indubio_server.live.snapshots import read_snapshot, write_snapshot

TOPIC = {"topic": "plant/{machine}", "time": "t"}


def entry(number: int) -> JournalEntry:
    return JournalEntry(number, number % 65535, f"plant/m{number}", b"x" * (number % 50))


def filled(folder, count: int) -> Journal:
    journal = Journal(folder)
    journal.append([entry(number) for number in range(count)])
    return journal


@pytest.mark.parametrize("cut", [0, 1, 7, 8, 9, 20, 30])
def test_a_half_written_end_is_cut_off_and_the_rest_is_read(tmp_path, cut):
    filled(tmp_path, 40).close()
    (file,) = tmp_path.glob("*.journal")
    content = file.read_bytes()
    file.write_bytes(content[: len(content) - cut])
    journal = Journal(tmp_path)
    whole = 40 if cut == 0 else 39
    assert journal.position == whole
    journal.append([entry(99)])
    found = list(journal.read(0))
    assert [one for _, one in found] == [*(entry(number) for number in range(whole)), entry(99)]
    assert [position for position, _ in found] == list(range(1, whole + 2))
    journal.close()


def test_what_a_snapshot_covers_is_forgotten_and_nothing_else(tmp_path):
    journal = filled(tmp_path, 10)
    journal.forget(10)
    journal.append([entry(10)])
    assert [one for _, one in journal.read(10)] == [entry(10)]
    with pytest.raises(StoreError, match="messages 4 to 10 are not in the journal"):
        list(journal.read(3))
    journal.forget(10)
    assert [one for _, one in journal.read(10)] == [entry(10)]
    journal.close()


def test_a_changed_byte_within_the_journal_is_told(tmp_path):
    journal = filled(tmp_path, 10)
    journal.close()
    (file,) = tmp_path.glob("*.journal")
    Journal(tmp_path).close()  # begins another file
    content = bytearray(file.read_bytes())
    content[40] ^= 1
    file.write_bytes(bytes(content))
    journal = Journal(tmp_path)
    with pytest.raises(StoreError, match="damaged"):
        list(journal.read(0))
    journal.close()


def test_a_snapshot_comes_back_to_the_bit_and_a_damaged_one_is_refused(tmp_path):
    states = {"m0": {"a": np.array([[1.5, np.nan]]), "b": [3, None, "x"], "c": np.array(7), "d": np.int64(2**60)}}
    write_snapshot(tmp_path / "snapshot", 5, "plan", states)
    position, plan, found = read_snapshot(tmp_path / "snapshot")
    assert (position, plan, found["m0"]["b"], found["m0"]["d"]) == (5, "plan", [3, None, "x"], 2**60)
    np.testing.assert_array_equal(found["m0"]["a"], states["m0"]["a"], strict=True)
    np.testing.assert_array_equal(found["m0"]["c"], states["m0"]["c"], strict=True)
    content = bytearray((tmp_path / "snapshot").read_bytes())
    content[-1] ^= 1
    (tmp_path / "snapshot").write_bytes(bytes(content))
    with pytest.raises(StoreError, match="damaged"):
        read_snapshot(tmp_path / "snapshot")


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({}, "topics"),
        ({"topics": [{"topic": "plant/+"}]}, "placeholders"),
        ({"topics": [{"topic": "plant/{machine}", "machine": "m"}]}, "machine is named"),
        ({"topics": [{"topic": "plant"}]}, "machine is named"),
        ({"topics": [{"topic": "plant/{machine}/{sensor}", "sensor": "s"}]}, "not both"),
        ({"topics": [{"topic": "plant/x{machine}"}]}, "whole-level"),
        ({"topics": [TOPIC], "publish": {"alarms": "plant/{machine}"}}, "would come back"),
        ({"topics": [TOPIC], "publish": {"alarms": "out/{site}"}}, "no placeholders but"),
        ({"topics": [TOPIC], "brokr": {}}, "broker"),
        ({"topics": [TOPIC], "ordering": {"lateness": -1.0}}, "lateness"),
        ({"topics": [TOPIC], "webhook": {"url": "ftp://x"}}, "url"),
    ],
)
def test_wrong_settings_are_refused_with_what_is_wrong(given, why):
    with pytest.raises(ConfigError, match=why):
        live_settings(given)


def test_a_webhook_without_a_secret_is_refused(monkeypatch):
    monkeypatch.delenv("INDUBIO_WEBHOOK_SECRET", raising=False)
    webhook = live_settings({"topics": [TOPIC], "webhook": {"url": "http://localhost/x"}}).webhook
    with pytest.raises(ConfigError, match="INDUBIO_WEBHOOK_SECRET"):
        webhook.secret()
