"""A real OIDC provider over HTTP for tests, which can be told to send ID tokens that are wrong in some way."""

import contextlib
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest
from joserfc import jwt
from joserfc.jwk import RSAKey

from indubio_server.oidc_login import OidcLogin

PROVIDER_WARNINGS = [  # of the provider's own code
    pytest.mark.filterwarnings("ignore::authlib.deprecate.AuthlibDeprecationWarning"),
    pytest.mark.filterwarnings("ignore:get_jwt_config:DeprecationWarning"),
]
SETTINGS = """
name = "Works"
issuer = "{issuer}"
client_id = "indubio"
client_secret_env = "INDUBIO_TEST_SECRET"
public_url = "http://127.0.0.1:1"
scopes = ["openid", "profile"]

[roles.everyone]
role = "scorer"
[roles.qa-hamburg]
role = "reviewer"
sites = ["hamburg"]
[roles.qa-mill]
role = "reviewer"
sites = ["mill"]
[roles.heads]
role = "admin"
"""
PEOPLE: dict[str, dict[str, Any]] = {
    "s-ada": {"preferred_username": "ada", "groups": ["qa-hamburg", "chess"]},
    "s-ada-2": {"preferred_username": "ada", "groups": ["heads"]},
    "s-both": {"preferred_username": "both", "groups": ["qa-hamburg", "qa-mill"]},
    "s-eve": {"preferred_username": "eve", "groups": ["qa-hamburg", "heads"]},
    "s-one": {"preferred_username": "one", "groups": "qa-hamburg"},
    "s-scorer": {"preferred_username": "robot", "groups": ["everyone"]},
    "s-stranger": {"preferred_username": "stranger", "groups": ["chess"]},
    "s-bare": {"groups": ["heads"]},
    "s-long": {"preferred_username": "x" * 300, "groups": ["heads"]},
    "s-odd": {"preferred_username": "odd", "groups": [["heads"], {"a": 1}, None, 7]},
}
Change = Callable[[dict[str, Any], RSAKey], str | None]


@dataclass
class Provider:
    """A provider that runs: `change` makes another ID token of its claims, `forms` are the requests for tokens."""

    issuer: str
    change: Change | None = None
    forms: list[dict[str, str]] = field(default_factory=list)

    def consent(self, address: str, subject: str) -> str:
        """Log in at the provider, as a person would; the address that it sends the browser back to."""
        answer = httpx.post(address, data={"sub": subject})
        assert answer.status_code == 302, answer.text
        return answer.headers["location"]

    def login(self, folder: Path, text: str = SETTINGS) -> OidcLogin:
        """Our side of it, from a file."""
        path = folder / "oidc.toml"
        path.write_text(text.format(issuer=self.issuer))
        return OidcLogin.read(path)


@contextlib.contextmanager
def provider() -> Iterator[Provider]:
    """Run a provider on a port of its own."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it uses parts of Authlib that are deprecated
        mock = pytest.importorskip("oidc_provider_mock", reason="no OIDC provider here: pip install oidc-provider-mock")
    import flask
    from oidc_provider_mock._server import _threaded_server

    users = [mock.User(sub=subject, claims=claims) for subject, claims in PEOPLE.items()]
    app = mock.app(user_claims=users, require_nonce=True)
    told = Provider(issuer="")

    @app.after_request
    def changed(response: flask.Response) -> flask.Response:
        if flask.request.path == "/oauth2/token" and response.status_code == 200:
            told.forms.append(dict(flask.request.form))
            body = response.get_json()
            if told.change is not None:
                key = RSAKey.import_key(flask.g.oidc_provider_mock_storage.jwk.as_dict(is_private=True))
                claims = dict(jwt.decode(body["id_token"], key).claims)
                body["id_token"] = told.change(claims, key)
                response.set_data(flask.json.dumps({k: v for k, v in body.items() if v is not None}))
        return response

    with _threaded_server(app) as server:
        told.issuer = f"http://localhost:{server.server_port}"
        yield told


def signed(claims: dict[str, Any], key: RSAKey) -> str:
    """An ID token with these claims."""
    return jwt.encode({"alg": "RS256", "kid": key.kid} if key.kid else {"alg": "RS256"}, claims, key)
