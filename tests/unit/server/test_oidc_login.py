"""Logging in at a real OIDC provider: who gets in as whom, and all the ways to be kept out."""

import base64
import hashlib
import json
import re
import time
from collections.abc import Iterator
from dataclasses import replace
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest
from joserfc import jwt
from joserfc.jwk import RSAKey

from indubio import Budget, Detector
from indubio.errors import ConfigError, ConflictError
from indubio_server.oidc_login import OidcLogin
from indubio_server.store import Person, Role, close_session, open_person_session, session_owner, verify
from indubio_server.store.audit_trail import entries
from tests.oidc_provider import PROVIDER_WARNINGS, SETTINGS, Provider, provider, signed
from tests.review_server import Running, logged_in, running, token
from tests.small_examples import ROWS, TRAINING, table

pytestmark = PROVIDER_WARNINGS
PLANT = """
[sites.hamburg.lines.press]
machines = ["press-*"]
[sites.mill.lines.all]
machines = ["mill-*"]
"""
SESSION, ATTEMPT = "indubio_session", "indubio_login"


@pytest.fixture(scope="module")
def works() -> Iterator[Provider]:
    with provider() as started:
        yield started


@pytest.fixture(scope="module")
def server(works, tmp_path_factory) -> Iterator[Running]:
    folder = tmp_path_factory.mktemp("oidc")
    (folder / "plant.toml").write_text(PLANT)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("INDUBIO_TEST_SECRET", "a secret")
        login = works.login(folder)
    detector = Detector(referral=Budget(share=0.2)).fit(table(TRAINING))
    with running(detector, folder, plant=folder / "plant.toml", login=login, control_share=1.0) as started:
        login.public_url = started.url
        started.assess(ROWS[:2], "press-1")
        started.assess(ROWS[:3], "mill-1")
        yield started


@pytest.fixture
def client(server, works) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=server.url) as one:
        yield one
    works.change = None


def begun(client: httpx.Client, then: str = "/review/status") -> str:
    """Press the button; the address at the provider."""
    answer = client.get("/login/oidc", params={"then": then})
    assert answer.status_code == 303
    return answer.headers["location"]


def back(client: httpx.Client, works: Provider, subject: str, **options) -> httpx.Response:
    """Press the button, log in at the provider, and come back."""
    return client.get(works.consent(begun(client, **options), subject))


def test_a_person_gets_in_with_the_name_role_and_sites_that_the_provider_vouches_for(server, works, client):
    assert "Log in with Works" in client.get("/login").text
    answer = back(client, works, "s-ada")
    assert answer.status_code == 200
    assert 'content="0; url=/review/status"' in answer.text
    cookie = next(one for one in answer.headers.get_list("set-cookie") if one.startswith(SESSION))
    assert "HttpOnly" in cookie
    assert "SameSite=strict" in cookie
    queue = client.get("/review").text
    assert "oidc:ada" in queue
    assert "2 cases wait" in queue
    assert "mill" not in queue
    last = server.store.read(lambda c: [one for one in entries(c) if one.kind == "logged in"][-1])
    assert last.actor == "oidc:ada"
    said = {"issuer": works.issuer, "subject": "s-ada", "role": "reviewer", "sites": ["hamburg"]}
    assert {name: last.content[name] for name in said} == said
    assert server.store.read(verify).findings == ()


def test_the_way_to_the_provider_and_back_is_in_the_chosen_language(works, client):
    chosen = client.get("/review/language?to=de").headers.get_list("set-cookie")
    assert any("indubio_language=de" in one and "SameSite=lax" in one for one in chosen), "links of others bring it too"
    assert "Mit Works anmelden" in client.get("/login").text
    refused = client.get("/login/callback?state=none").text
    assert "Diese Anmeldung wurde nicht hier begonnen" in refused
    assert "Zur Anmeldung" in refused
    answer = back(client, works, "s-ada").text
    assert "Sie sind angemeldet" in answer
    assert "callback" not in answer, "the switch of languages does not repeat a login"
    status = client.get("/review/status").text
    assert "Standort" in status
    assert re.search("0 von 1 Maschinen? im Alarm; ", status)
    assert "mill" not in status
    assert "Es gibt keinen Standort und keine Linie" in client.get("/review?site=mill").text
    assert "Auch bei Works abmelden" in client.post("/review/logout", data={"token": token(client)}).text


def test_state_nonce_and_the_challenge_of_pkce_go_out_and_the_verifier_follows(works, client):
    address = parse_qs(urlsplit(begun(client)).query)
    assert address["code_challenge_method"] == ["S256"]
    assert len(address["state"][0]) >= 20
    assert len(address["nonce"][0]) >= 20
    again = parse_qs(urlsplit(begun(client)).query)
    assert not {again[name][0] for name in ("state", "nonce", "code_challenge")} & {
        address[name][0] for name in ("state", "nonce", "code_challenge")
    }
    going = begun(client)
    client.get(works.consent(going, "s-ada"))
    digest = hashlib.sha256(works.forms[-1]["code_verifier"].encode()).digest()
    challenge = base64.urlsafe_b64encode(digest).decode().rstrip("=")
    assert parse_qs(urlsplit(going).query)["code_challenge"] == [challenge]


@pytest.mark.parametrize(("subject", "cases", "admin"), [("s-both", 5, False), ("s-eve", 5, True), ("s-one", 2, False)])
def test_the_highest_role_counts_with_the_sites_of_all_groups_that_give_it(works, client, subject, cases, admin):
    back(client, works, subject)
    assert f"{cases} cases wait" in client.get("/review").text
    assert ("Train anew" in client.get("/review/models").text) == admin


@pytest.mark.parametrize(
    ("subject", "told"),
    [
        ("s-stranger", "nothing here is open to you"),
        ("s-scorer", "your role is scorer"),
        ("s-bare", "says no name of you"),
        ("s-odd", "nothing here is open to you"),
        ("s-long", "printable characters"),
    ],
)
def test_who_has_no_role_or_no_name_is_refused_with_the_reason(works, client, subject, told):
    answer = back(client, works, subject)
    assert answer.status_code in (400, 403)
    assert told in answer.text.lower() or told in answer.text
    assert SESSION not in client.cookies


def plain(part: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=")


def without(claims: dict, name: str) -> dict:
    return {key: value for key, value in claims.items() if key != name}


WRONG = {
    "signed by another key": (lambda claims, _: signed(claims, RSAKey.generate_key(2048)), "bad_signature"),
    "not signed": (lambda claims, _: f"{plain({'alg': 'none'})}.{plain(claims)}.", "'none' is not allowed"),
    "signed with a shared secret": (
        lambda claims, _: f"{plain({'alg': 'HS256'})}.{plain(claims)}.AAAA",
        "'HS256' is not allowed",
    ),
    "of another login": (lambda claims, key: signed(claims | {"nonce": "x" * 20}, key), "'nonce'"),
    "of no login": (lambda claims, key: signed(without(claims, "nonce"), key), "'nonce'"),
    "for somebody else": (lambda claims, key: signed(claims | {"aud": "other"}, key), "'aud'"),
    "for somebody else, given to us": (
        lambda claims, key: signed(claims | {"aud": "other", "azp": "indubio"}, key),
        "'aud'",
    ),
    "by somebody else": (lambda claims, key: signed(claims | {"iss": "http://localhost:1"}, key), "'iss'"),
    "too old": (lambda claims, key: signed(claims | {"iat": 1e9, "exp": time.time() - 300}, key), "expired"),
    "without an end": (lambda claims, key: signed(without(claims, "exp"), key), "'exp'"),
    "without a subject": (lambda claims, key: signed(without(claims, "sub"), key), "'sub'"),
    "nonsense": (lambda claims, key: "a.b", "decode_error"),
}


@pytest.mark.parametrize(("change", "why"), WRONG.values(), ids=WRONG)
def test_an_id_token_that_is_wrong_opens_nothing(works, client, caplog, change, why):
    works.change = change
    answer = back(client, works, "s-eve")
    assert answer.status_code == 403, answer.text
    assert "what Works sent is not valid" in answer.text.replace("What", "what")
    assert why in " ".join(getattr(record, "error", "") for record in caplog.records)
    assert why not in answer.text
    assert SESSION not in client.cookies
    assert client.get("/review").status_code == 303


@pytest.mark.parametrize(("named", "status"), [(True, 200), (False, 403)])
def test_new_keys_of_the_provider_are_read_at_once_or_at_the_next_attempt(works, client, named, status):
    def with_new_keys(claims, _):
        import flask

        storage = flask.g.oidc_provider_mock_storage
        storage.jwk = type(storage.jwk).generate_key(is_private=True)
        new = RSAKey.import_key(storage.jwk.as_dict(is_private=True))
        return signed(claims, new) if named else jwt.encode({"alg": "RS256"}, claims, new)

    assert back(client, works, "s-ada").status_code == 200
    works.change = with_new_keys
    assert back(client, works, "s-ada").status_code == status
    works.change = None
    assert back(client, works, "s-ada").status_code == 200


def test_without_an_id_token_nobody_gets_in(works, client):
    works.change = lambda claims, key: None
    assert back(client, works, "s-eve").status_code == 502
    assert SESSION not in client.cookies


def test_a_role_that_only_the_userinfo_tells_counts(works, client):
    works.change = lambda claims, key: signed({k: v for k, v in claims.items() if k != "groups"}, key)
    assert back(client, works, "s-ada").status_code == 200
    assert "2 cases wait" in client.get("/review").text


def test_an_attempt_works_once_and_only_in_the_browser_that_began_it(server, works, client):
    address = works.consent(begun(client), "s-ada")
    with httpx.Client(base_url=server.url) as other:  # somebody else's finished login, pushed on to a victim
        begun(other)
        assert other.get(address).status_code == 400
        assert SESSION not in other.cookies
    assert client.get(address).status_code == 400  # and used up with it
    address = works.consent(begun(client), "s-ada")
    kept = client.cookies[ATTEMPT]
    assert client.get(address).status_code == 200
    with httpx.Client(base_url=server.url, cookies={ATTEMPT: kept}) as again:
        assert again.get(address).status_code == 400
        assert SESSION not in again.cookies
    for query in ("", "?state=", "?state=x&code=y", "?error=access_denied"):
        assert client.get(f"/login/callback{query}").status_code == 400


def test_an_attempt_ends_and_many_attempts_do_not_fill_the_memory(server, works, client, monkeypatch):
    login = server.service.login
    address = works.consent(begun(client), "s-ada")
    state = parse_qs(urlsplit(address).query)["state"][0]
    login._attempts[state] = replace(login._attempts[state], until=time.monotonic() - 1)
    assert client.get(address).status_code == 400
    monkeypatch.setattr("indubio_server.oidc_login.MOST_ATTEMPTS", 3)
    login._attempts.clear()
    for _ in range(5):
        begun(client)
    assert len(login._attempts) == 3


def test_a_provider_that_says_no_is_told_so_in_our_own_words(client):
    state = parse_qs(urlsplit(begun(client)).query)["state"][0]
    answer = client.get("/login/callback", params={"state": state, "error": "<b>access_denied</b>"})
    assert answer.status_code == 403
    assert "Works did not let you in" in answer.text
    assert "access_denied" not in answer.text


@pytest.mark.parametrize("then", ["//evil.example", "https://evil.example", "/\\evil.example", "javascript:alert(1)"])
def test_logging_in_never_leads_to_another_site(works, client, then):
    assert 'content="0; url=/review"' in back(client, works, "s-ada", then=then).text


def test_an_address_that_nobody_verified_names_nobody(works, client, server, monkeypatch):
    monkeypatch.setattr(server.service.login, "settings", replace(server.service.login.settings, person="email"))
    for verified, status in ((False, 403), (True, 200)):
        mail = {"email": "ada@example.com", "email_verified": verified}
        works.change = lambda claims, key, mail=mail: signed(claims | mail, key)
        assert back(client, works, "s-ada").status_code == status


def test_before_a_proxy_that_encrypts_cookies_are_secure(works, client, server, monkeypatch):
    monkeypatch.setattr(server.service.login, "public_url", "https://indubio.example.com")
    answer = client.get("/login/oidc")
    assert parse_qs(urlsplit(answer.headers["location"]).query)["redirect_uri"] == [
        "https://indubio.example.com/login/callback"
    ]
    assert answer.headers.get_list("set-cookie")
    assert all("Secure" in one for one in answer.headers.get_list("set-cookie"))


def test_a_session_is_new_and_ends_the_one_before_it(server, works):
    with logged_in(server, "ada") as client:
        before = client.cookies[SESSION]
        client.follow_redirects = False
        back(client, works, "s-eve")
        assert client.cookies[SESSION] != before
        assert server.store.read(lambda c: session_owner(c, before)) is None
        assert "oidc:eve" in client.get("/review").text


def test_logging_out_ends_the_session_here_and_at_the_provider(server, works, client):
    back(client, works, "s-ada")
    secret = client.cookies[SESSION]
    answer = client.post("/review/logout", data={"token": token(client)})
    address = re.search(r'content="0; url=([^"]+)"', answer.text)[1].replace("&amp;", "&")
    assert address.startswith(f"{works.issuer}/oauth2/end_session?")
    query = parse_qs(urlsplit(address).query)
    assert query["post_logout_redirect_uri"] == [f"{server.url}/login"]
    assert query["id_token_hint"][0].count(".") == 2
    client.cookies.set(SESSION, secret)
    assert client.get("/review").status_code == 303


def test_a_name_belongs_to_the_first_who_comes_with_it(works, client):
    assert back(client, works, "s-ada").status_code == 200
    client.cookies.delete(SESSION)
    answer = back(client, works, "s-ada-2")
    assert answer.status_code == 409
    assert "belongs to somebody else" in answer.text
    assert SESSION not in client.cookies


def test_who_logs_in_with_a_key_needs_no_provider_and_is_told_when_it_is_away(server, monkeypatch, tmp_path):
    monkeypatch.setenv("INDUBIO_TEST_SECRET", "a secret")
    away = Provider(issuer="http://127.0.0.1:9").login(tmp_path)
    monkeypatch.setattr(server.service.login, "_client", away._client)
    with httpx.Client(base_url=server.url) as client:
        answer = client.get("/login/oidc")
        assert answer.status_code == 503
        assert "Works cannot be reached now" in answer.text
    with logged_in(server, "ada") as ada:
        assert ada.get("/review").status_code == 200


def test_a_provider_that_calls_itself_otherwise_is_not_believed(server, works, monkeypatch, tmp_path):
    monkeypatch.setenv("INDUBIO_TEST_SECRET", "a secret")
    port = urlsplit(works.issuer).port
    other = Provider(issuer=f"http://127.0.0.1:{port}/").login(tmp_path)
    monkeypatch.setattr(server.service.login, "_client", other._client)
    with httpx.Client(base_url=server.url) as client:
        assert client.get("/login/oidc").status_code == 502


def test_people_get_in_only_under_the_rules_that_they_logged_in_with(store):
    person = Person(name="ada", issuer="https://works", subject="1", role=Role.ADMIN, sites=frozenset({"hamburg"}))
    secret = store.write(lambda c: open_person_session(c, person, provider="rules", id_token="t"))
    owner = store.read(lambda c: session_owner(c, secret, provider="rules"))
    assert (owner.name, owner.role, owner.sites) == ("oidc:ada", Role.ADMIN, {"hamburg"})
    for rules in (None, "other rules"):
        assert store.read(lambda c, rules=rules: session_owner(c, secret, provider=rules)) is None
    other = replace(person, issuer="https://elsewhere")
    with pytest.raises(ConflictError):
        store.write(lambda c: open_person_session(c, other, provider="rules", id_token="t"))
    assert store.write(lambda c: close_session(c, secret)) == "t"
    assert store.read(lambda c: session_owner(c, secret, provider="rules")) is None
    assert store.read(verify).findings == ()


def test_with_a_provider_nobody_gets_in_as_local(sqlite_store, works, tmp_path, monkeypatch):
    from starlette.testclient import TestClient

    from indubio_server.http import Answer, Gate, Metrics
    from indubio_server.server_settings import ServerSettings

    gate = Gate(Answer(b""), sqlite_store, Metrics(), ServerSettings(), provider="rules")
    assert TestClient(gate, base_url="http://localhost", client=("127.0.0.1", 1)).get("/models").status_code == 401


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ('issuer = "{issuer}"', 'issuer = "http://login.example.com"', "`issuer` must be an https URL"),
        ('public_url = "http://127.0.0.1:1"', 'public_url = "indubio"', "`public_url` must be an https URL"),
        ('client_id = "indubio"', "", "`client_id` is missing"),
        ('name = "Works"', 'nme = "Works"', 'Did you mean "name"'),
        ('"openid", ', "", "`scopes` must have openid"),
        ('role = "admin"', 'role = "boss"', "one of metrics, scorer, reviewer, admin, got 'boss'"),
        ('sites = ["hamburg"]', "sites = []", "at least one site"),
        ('"INDUBIO_TEST_SECRET"', '"INDUBIO_NO_SUCH"', "variable INDUBIO_NO_SUCH is not set"),
        ("client_secret_env", 'client_secret_file = "x"\nclient_secret_env', "not both"),
        ('client_secret_env = "INDUBIO_TEST_SECRET"', 'client_secret_file = "no"', "no cannot be read"),
    ],
)
def test_settings_that_make_no_sense_are_refused_with_the_reason(tmp_path, monkeypatch, old, new, told):
    monkeypatch.setenv("INDUBIO_TEST_SECRET", "a secret")
    assert SETTINGS.count(old) == 1
    path = tmp_path / "oidc.toml"
    path.write_text(SETTINGS.replace(old, new).replace("{issuer}", "https://login.example.com"))
    with pytest.raises(ConfigError) as refused:
        OidcLogin.read(path)
    assert told in str(refused.value)
    assert str(refused.value).startswith(f"{path}: ")
