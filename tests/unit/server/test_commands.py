"""`indubio serve`, `keys` and `audit`, as a user runs them."""

import json
import re
from pathlib import Path

import pytest
from sqlalchemy import text
from typer.testing import CliRunner, Result

from indubio.cli.app import app
from indubio.errors import ConfigError, NotFoundError
from indubio_server.store import Head, ServerStore, hashed, keys_in_use, open_session, review, revoke_key, session_owner
from indubio_server.store.anchors import write_anchor
from tests.served import table_model
from tests.stored_cases import assessed, stored


@pytest.fixture
def state(tmp_path: Path) -> Path:
    """A server's folder in which something happened."""
    with ServerStore(f"sqlite:///{tmp_path / 'indubio.sqlite'}") as store:
        (case,) = stored(store, [assessed()])
        store.write(lambda c: review(c, case.id, "ada", "A"))
    return tmp_path


def run(*arguments: object, catch: bool = True) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments], catch_exceptions=catch)


def test_keys_are_made_listed_and_revoked(tmp_path: Path) -> None:
    made = run("keys", "add", "line 3", "--role", "scorer", "--state", tmp_path)
    secret = made.stdout.strip()
    assert secret.startswith("indubio_")
    with ServerStore(f"sqlite:///{tmp_path / 'indubio.sqlite'}") as store:
        assert store.read(keys_in_use)[hashed(secret)].role == "scorer"
    listed = json.loads(run("keys", "list", "--json", "--state", tmp_path).stdout)
    assert [(key["name"], key["in_use"]) for key in listed["keys"]] == [("line 3", True)]
    assert run("keys", "revoke", "line 3", "--state", tmp_path).exit_code == 0
    assert "line 3" in run("keys", "list", "--state", tmp_path).stdout
    assert json.loads(run("keys", "list", "--json", "--state", tmp_path).stdout)["keys"][0]["in_use"] is False
    head = run("audit", "head", "--state", tmp_path).stdout.strip()
    assert run("audit", "verify", "--state", tmp_path, "--head", head).exit_code == 0


def test_a_key_can_be_for_some_sites_and_its_sessions_can_be_ended(tmp_path: Path) -> None:
    sites = ("--site", "hamburg", "--site", "berlin")
    secret = run("keys", "add", "hanna", "--role", "reviewer", *sites, "--state", tmp_path).stdout.strip()
    with ServerStore(f"sqlite:///{tmp_path / 'indubio.sqlite'}") as store:
        key = store.read(keys_in_use)[hashed(secret)]
        assert key.sites == {"hamburg", "berlin"}
        cookie = store.write(lambda c: open_session(c, key))
    assert json.loads(run("keys", "list", "--json", "--state", tmp_path).stdout)["keys"][0]["sites"] == sorted(
        key.sites
    )
    assert "berlin, hamburg" in run("keys", "list", "--state", tmp_path).stdout
    assert "1 sessions ended" in run("keys", "logout", "hanna", "--state", tmp_path).stderr
    with ServerStore(f"sqlite:///{tmp_path / 'indubio.sqlite'}") as store:
        assert store.read(lambda c: session_owner(c, cookie)) is None
        assert hashed(secret) in store.read(keys_in_use)
    unknown = run("keys", "logout", "nobody", "--state", tmp_path)
    assert isinstance(unknown.exception, NotFoundError)
    head = run("audit", "head", "--state", tmp_path).stdout.strip()
    assert run("audit", "verify", "--state", tmp_path, "--head", head).exit_code == 0


@pytest.mark.parametrize("option", ["--plant", "--oidc"])
def test_a_file_that_cannot_be_used_is_told_before_anything_is_served(tmp_path: Path, option: str) -> None:
    broken = tmp_path / "broken.toml"
    broken.write_text("sites = 3")
    table_model(tmp_path / "model")
    served = run("serve", "--model", tmp_path / "model", "--state", tmp_path / "state", option, broken)
    assert isinstance(served.exception, ConfigError)
    assert str(served.exception).startswith(f"{broken}: ")


def test_verify_says_whole_or_what_was_done_with_exit_code_4(state: Path) -> None:
    head = run("audit", "head", "--state", state).stdout.strip()
    whole = run("audit", "verify", "--state", state, "--head", head)
    told = "2 entries, 1 verdicts, 1 cases, 1 reviews, 1 anchors, 2 entries proven: whole.\n"
    assert (whole.exit_code, whole.stdout) == (0, told)
    with ServerStore(f"sqlite:///{state / 'indubio.sqlite'}") as store:
        store.write(lambda c: c.execute(text("UPDATE reviews SET label = 'I'")))
    changed = run("audit", "verify", "--state", state)
    assert changed.exit_code == 4
    assert "row [1] of reviews was changed" in changed.stdout
    assert json.loads(run("audit", "verify", "--json", "--state", state).stdout)["whole"] is False


def test_without_a_head_that_was_kept_the_end_is_not_proven(state: Path) -> None:
    alone = run("audit", "verify", "--state", state)
    assert alone.exit_code == 5
    assert "the end is not proven" in alone.stdout
    told = json.loads(run("audit", "verify", "--state", state, "--json").stdout)
    assert (told["whole"], told["end_proven"], told["entries_proven"]) == (True, False, 0)
    number, _, hash_ = run("audit", "head", "--state", state).stdout.strip().partition(":")
    elsewhere = state / "elsewhere"
    write_anchor(elsewhere, Head(seq=int(number), hash=hash_))
    told = json.loads(run("audit", "verify", "--state", state, "--json", "--anchor-file", elsewhere).stdout)
    assert (told["whole"], told["end_proven"], told["entries_proven"]) == (True, True, 2)
    assert run("audit", "verify", "--state", state, "--anchor-file", state / "nowhere").exit_code == 2


def test_a_database_that_is_not_there_is_not_whole(tmp_path: Path) -> None:
    for command in (["verify"], ["head"], ["export", "--out", tmp_path / "x"], ["stamp", "--out", tmp_path / "x"]):
        refused = run("audit", *command, "--state", tmp_path / "typo")
        assert (refused.exit_code, (tmp_path / "typo").exists()) == (2, False)
    with ServerStore(f"sqlite:///{tmp_path / 'indubio.sqlite'}"):
        pass
    assert run("audit", "verify", "--state", tmp_path).exit_code == 5


@pytest.mark.parametrize("said", ["'0002'", "'0000'", "''", "'x'", None])
def test_another_version_of_the_tables_is_a_finding(state: Path, said: str | None) -> None:
    change = "DELETE FROM alembic_version" if said is None else f"UPDATE alembic_version SET version_num = {said}"
    with ServerStore(f"sqlite:///{state / 'indubio.sqlite'}") as store:
        store.write(lambda c: c.execute(text(change)))
    found = run("audit", "verify", "--state", state)
    assert found.exit_code == 4
    assert "alembic_version" in found.stdout


def test_a_head_that_was_kept_shows_a_trail_that_was_made_anew(state: Path) -> None:
    head = run("audit", "head", "--state", state).stdout.strip()
    assert re.fullmatch(r"2:[0-9a-f]{64}", head)
    assert run("audit", "verify", "--state", state, "--head", head).exit_code == 0
    other = run("audit", "verify", "--state", state, "--head", "2:" + "f" * 64)
    assert other.exit_code == 4
    assert "made anew" in other.stdout
    cut = run("audit", "verify", "--state", state, "--head", "9:" + "f" * 64)
    assert "cut off" in cut.stdout
    assert run("audit", "verify", "--state", state, "--head", "x").exit_code == 2


def test_a_period_is_exported_and_verified_by_itself(state: Path, tmp_path: Path) -> None:
    out = tmp_path / "trail.jsonl"
    assert run("audit", "export", "--state", state, "--out", out, "--since", "2020-01-01").exit_code == 0
    lines = out.read_text().splitlines()
    assert [json.loads(line)["kind"] for line in lines[1:-1]] == ["verdicts", "reviewed"]
    assert run("audit", "verify", "--export", out).stdout == "2 entries: whole.\n"
    out.write_text("\n".join(lines[:-1]))
    assert "no closing line" in run("audit", "verify", "--export", out).stdout
    out.write_text("\n".join(lines).replace("ada", "eve"))
    assert run("audit", "verify", "--export", out).exit_code == 4
    empty = run("audit", "export", "--state", state, "--out", out, "--until", "2020-01-01T00:00:00+02:00")
    assert empty.exit_code == 0
    assert run("audit", "verify", "--export", out).stdout == "0 entries: whole.\n"
    assert run("audit", "export", "--state", state, "--out", out, "--after", 1, "--until-entry", 2).exit_code == 0
    assert run("audit", "verify", "--export", out).stdout == "1 entries: whole.\n"
    assert run("audit", "export", "--state", state, "--out", out, "--since", "yesterday").exit_code == 2


def test_without_a_key_an_open_server_does_not_listen_to_other_machines(tmp_path: Path) -> None:
    refused = run("serve", "--open", "--model", tmp_path, "--state", tmp_path / "s", "--host", "0.0.0.0")
    assert refused.exit_code == 2
    assert "keys add" in refused.output


def test_the_first_start_makes_a_key_and_no_other_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("indubio_server.process.run", lambda config: None)
    table_model(tmp_path / "press")

    def start(state: str, *options: str) -> str:
        return run("serve", "--model", tmp_path / "press", "--state", tmp_path / state, *options).stdout

    assert start("open", "--open") == ""
    secret = start("state").removeprefix("The key of the admin, which is shown only now: ").strip()
    with ServerStore(f"sqlite:///{tmp_path / 'state' / 'indubio.sqlite'}") as store:
        assert [(key.name, key.role) for key in store.read(keys_in_use).values()] == [("admin", "admin")]
        assert hashed(secret) in store.read(keys_in_use)
        store.write(lambda c: revoke_key(c, "admin", actor="test"))
    assert start("state") == "", "whoever took all keys back makes the next one"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--model", "a b=x"], "no name for a model"),
        (["--model", "m=x", "--model", "m=y"], "two models"),
    ],
)
def test_what_cannot_be_served_is_told_before_it_is(tmp_path: Path, options: list[str], words: str) -> None:
    refused = run("serve", *options, "--state", tmp_path)
    assert refused.exit_code == 2
    assert words in refused.output.replace("\n", " ")


def test_settings_of_the_server_are_told_by_flags_by_set_and_by_a_file(tmp_path: Path) -> None:
    (tmp_path / "server.toml").write_text("most_rows = 0\n")
    for told, words in (
        (("--set", "alarm.raise_at=9"), "`clear_at` < `raise_at`"),
        (("--set", "most_rows=0"), "`most_rows` must be at least 1"),
        (("--set", "most_row=5"), "Did you mean most_rows"),
        (("--control-share", "2"), "`control_share` must be at most 1"),
        (("--config", tmp_path / "server.toml"), "server.toml: `most_rows`"),
    ):
        with pytest.raises(ConfigError, match=words):
            run("serve", "--model", "m=x", *told, "--state", tmp_path, catch=False)


def test_the_url_of_the_database_may_be_in_a_file(state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    url, empty = state / "url", state / "empty"
    url.write_text(f"sqlite:///{state / 'indubio.sqlite'}\n")
    empty.touch()
    assert run("audit", "head", "--db", f"@{url}").stdout.startswith("2:")
    monkeypatch.setenv("INDUBIO_DB", f"@{url}")
    assert run("audit", "head").stdout.startswith("2:")
    with pytest.raises(ConfigError, match="one line"):
        run("audit", "head", "--db", f"@{empty}", catch=False)
    with pytest.raises(ConfigError, match="cannot be read"):
        run("audit", "head", "--db", f"@{state / 'none'}", catch=False)


def test_a_user_without_a_name_can_make_a_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("LOGNAME", "USER", "LNAME", "USERNAME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("os.getuid", lambda: 2_000_000_001)  # as a container that is given any number
    assert run("keys", "add", "line 3", "--role", "scorer", "--state", tmp_path, catch=False).exit_code == 0
