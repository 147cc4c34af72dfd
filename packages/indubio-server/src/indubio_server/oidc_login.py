"""Login by OpenID Connect: a provider vouches for people, and its claims say what they may do.

The authorization code flow, with PKCE (S256), state and nonce. The ID token must be signed by a key of the provider and
say the right issuer, audience, time and nonce; Authlib does all of that. An attempt to log in is kept in memory, works
once, for ten minutes and in the browser that began it: a link that somebody else began ends nowhere.
"""

import hashlib
import hmac
import logging
import os
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx2
import msgspec
from authlib.integrations.base_client import BaseApp, OAuth2Mixin, OAuthError, OpenIDMixin
from authlib.integrations.httpx_client import OAuth2Client
from joserfc.errors import JoseError

from indubio.configuration import from_plain
from indubio.errors import ConfigError, IndubioError
from indubio.io import read_toml
from indubio.settings import Settings
from indubio.texts import english
from indubio_server.http import CALLBACK, RefusalError, is_loopback
from indubio_server.store import Person, Role, hashed, sites_plain

log = logging.getLogger("indubio_server")
ATTEMPT = 600.0  # seconds that somebody may take to log in at the provider
MOST_ATTEMPTS = 10_000  # at once; beyond them the oldest is forgotten
PATIENCE = 10.0  # seconds to wait for the provider
SKEW = 60  # seconds that its clock may differ from ours
SIGNATURES = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "Ed25519", "EdDSA")
RANKS = (Role.METRICS, Role.SCORER, Role.REVIEWER, Role.ADMIN)


@dataclass(frozen=True, kw_only=True)
class ClaimRule(Settings):
    """What people with a value of the claim may do.

    Args:
        role: metrics, scorer, reviewer or admin.
        sites: whose machines they see; None for all.
    """

    role: str
    sites: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.role not in tuple(Role):
            raise ConfigError(f"`role` must be one of {', '.join(Role)}, got {self.role!r}.")
        sites_plain(self.sites)


@dataclass(frozen=True, kw_only=True)
class OidcSettings(Settings):
    """How people log in, as the TOML file has it.

    Args:
        name: of the provider, on the button.
        issuer: its URL, under which `/.well-known/openid-configuration` is.
        client_id: what it calls this server.
        client_secret_env: environment variable with the secret. client_secret_file: or a file. None for neither: a
            public client, which PKCE alone protects.
        public_url: what browsers call this server; the provider must know it with `/login/callback`.
        scopes: what is asked for.
        person: claim with a person's name, which must be unique and stay the same.
        claim: claim whose values say what a person may do: a text or a list of texts.
        roles: what each value allows.
    """

    name: str = "single sign-on"
    issuer: str
    client_id: str
    client_secret_env: str | None = None
    client_secret_file: str | None = None
    public_url: str
    scopes: tuple[str, ...] = ("openid", "profile", "email")
    person: str = "preferred_username"
    claim: str = "groups"
    roles: dict[str, ClaimRule] = field(default_factory=dict)

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("issuer", "public_url"):
            url = urlsplit(getattr(self, name))
            safe = url.scheme == "https" or (url.scheme == "http" and is_loopback(url.hostname or ""))
            if not safe or not url.hostname or url.query or url.fragment or url.username:
                raise ConfigError(
                    f"`{name}` must be an https URL without a query (http only on this machine), got "
                    f"{getattr(self, name)!r}."
                )
        if self.client_secret_env is not None and self.client_secret_file is not None:
            raise ConfigError("give `client_secret_env` or `client_secret_file`, not both.")
        if "openid" not in self.scopes:
            raise ConfigError(f"`scopes` must have openid, got {list(self.scopes)}.")
        if not self.roles:
            raise ConfigError("`roles` must say for at least one value of the claim what it allows, or nobody gets in.")

    def secret(self) -> str | None:
        """The secret that proves to the provider who we are; None for a public client."""
        if self.client_secret_env is not None:
            secret = os.environ.get(self.client_secret_env, "").strip()
            if not secret:
                raise ConfigError(f"`client_secret_env`: the variable {self.client_secret_env} is not set.")
            return secret
        if self.client_secret_file is None:
            return None
        try:
            secret = Path(self.client_secret_file).read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(f"`client_secret_file`: {self.client_secret_file} cannot be read ({error}).") from None
        if not secret:
            raise ConfigError(f"`client_secret_file`: {self.client_secret_file} is empty.")
        return secret


class _Client(OAuth2Mixin, OpenIDMixin, BaseApp):  # type: ignore[misc]  # Authlib has no types
    """Authlib's client of a provider, on httpx; its frameworks bring the same for Flask and Starlette."""

    client_cls = OAuth2Client


@dataclass(frozen=True, kw_only=True)
class LoginAttempt:
    """Somebody who went to the provider and is expected back.

    Args:
        browser: hash of what their browser keeps in a cookie.
        nonce: that the ID token must have.
        verifier: the secret of PKCE.
        then: path to go on with.
        until: end of the attempt, by the monotonic clock.
    """

    browser: str
    nonce: str
    verifier: str
    then: str
    until: float


class OidcLogin:
    """Sends people to their provider, and finds out who came back.

    Args:
        settings: of the provider, and what its claims mean here.
    """

    def __init__(self, settings: OidcSettings) -> None:
        self.settings = settings
        self.public_url = settings.public_url.rstrip("/")
        self._issuer = settings.issuer
        self._client = _Client(
            None,
            name="oidc",
            client_id=settings.client_id,
            client_secret=settings.secret(),
            server_metadata_url=f"{settings.issuer.rstrip('/')}/.well-known/openid-configuration",
            client_kwargs={
                "scope": " ".join(settings.scopes),
                "code_challenge_method": "S256",
                "timeout": PATIENCE,
                **({"token_endpoint_auth_method": "none"} if settings.secret() is None else {}),
            },
        )
        self._attempts: dict[str, LoginAttempt] = {}
        self._lock = threading.Lock()

    @classmethod
    def read(cls, path: Path) -> "OidcLogin":
        """The login that a TOML file describes."""
        plain = read_toml(path)
        try:
            return cls(from_plain(OidcSettings, plain))
        except ConfigError as error:
            raise ConfigError(f"{path}: {error}") from None

    @property
    def name(self) -> str:
        """The name of the provider, for people."""
        return self.settings.name

    @property
    def rules(self) -> str:
        """Names what the claims mean here: sessions that were opened under other rules do not count."""
        meant = {name: asdict(self.settings)[name] for name in ("issuer", "client_id", "person", "claim", "roles")}
        return hashlib.sha256(msgspec.json.encode(meant, order="sorted")).hexdigest()

    def begin(self, browser: str, then: str) -> str:
        """The address at the provider to go to.

        Args:
            browser: what the browser keeps in a cookie and must bring back.
            then: path to go on with afterwards.
        """
        with _told(self.name):
            self._load()
            made = self._client.create_authorization_url(self.public_url + CALLBACK)
        attempt = LoginAttempt(
            browser=hashed(browser),
            nonce=made["nonce"],
            verifier=made["code_verifier"],
            then=then,
            until=time.monotonic() + ATTEMPT,
        )
        with self._lock:
            self._attempts[made["state"]] = attempt
            if len(self._attempts) > MOST_ATTEMPTS:
                del self._attempts[next(iter(self._attempts))]
        return str(made["url"])

    def finish(self, query: Mapping[str, str], browser: str | None) -> tuple[Person, str, str]:
        """Who came back, the ID token, and the path to go on with.

        Args:
            query: what the provider sent along.
            browser: what the browser kept; None where it brought nothing.
        """
        attempt = self._taken(query.get("state", ""), browser)
        if "error" in query:
            log.info("a login was refused by the provider", extra={"error": query["error"][:100]})
            raise RefusalError(
                403, english("{provider} did not let you in. Try again, or log in with a key.", provider=self.name)
            )
        with _told(self.name):
            self._load()
            token = self._client.fetch_access_token(
                redirect_uri=self.public_url + CALLBACK, code=query.get("code", ""), code_verifier=attempt.verifier
            )
            claims = self._with_userinfo(self._claims(token, attempt.nonce), token)
        return self._person(claims), str(token["id_token"]), attempt.then

    def goodbye(self, id_token: str) -> str | None:
        """The address that ends the session at the provider too; None where it has none or cannot be reached."""
        try:
            with _told(self.name):
                self._load()
                if not self._client.server_metadata.get("end_session_endpoint"):
                    return None
                made = self._client.create_logout_url(
                    post_logout_redirect_uri=f"{self.public_url}/login",
                    id_token_hint=id_token,
                    client_id=self.settings.client_id,
                )
        except IndubioError:
            return None
        return str(made["url"])

    def _load(self) -> None:
        """Read the provider's description, once; it must be the issuer's own, and sign with a key that we can check."""
        known = self._client.load_server_metadata()
        usable = [one for one in known.get("id_token_signing_alg_values_supported") or ["RS256"] if one in SIGNATURES]
        wrong = None
        if known.get("issuer") != self._issuer:
            wrong = f"it calls itself {known.get('issuer')!r}, and the settings say {self._issuer!r}"
        elif not usable:
            wrong = "it signs with no public key"
        if wrong is not None:
            self._client.server_metadata.pop("_loaded_at", None)  # so that it is asked again
            log.error("the provider of logins is not as it should be", extra={"provider": self.name, "why": wrong})
            raise RefusalError(
                502,
                english(
                    "{provider} is not set up as this server expects; the server's log says how.", provider=self.name
                ),
            )
        known["id_token_signing_alg_values_supported"] = usable

    def _claims(self, token: Mapping[str, Any], nonce: str) -> dict[str, Any]:
        """What the ID token says, once it is known to be the provider's, for us, of this attempt and of now."""
        wanted = {
            "iss": {"essential": True, "value": self._issuer},
            "aud": {"essential": True, "value": self.settings.client_id},
        }
        try:
            claims = self._client.parse_id_token(token, nonce=nonce, leeway=SKEW, claims_options=wanted)
        except JoseError:
            # A new key with a name of its own was looked for already; without names, the next attempt reads them again.
            self._client.server_metadata.pop("jwks", None)
            raise
        if claims is None:
            raise RefusalError(502, english("{provider} sent no ID token.", provider=self.name))
        return dict(claims)

    def _taken(self, state: str, browser: str | None) -> LoginAttempt:
        with self._lock:
            attempt = self._attempts.pop(state, None)  # whatever comes of it, it works once
        late = attempt is None or time.monotonic() > attempt.until
        if attempt is None or late or not hmac.compare_digest(attempt.browser, hashed(browser or "")):
            raise RefusalError(
                400, english("this login was not begun here, was used already, or took too long. Begin again.")
            )
        return attempt

    def _with_userinfo(self, claims: dict[str, Any], token: Mapping[str, Any]) -> dict[str, Any]:
        """The claims, with what only the provider's userinfo has where one that is needed is missing."""
        needed = {self.settings.person, self.settings.claim}
        if needed <= claims.keys() or not self._client.server_metadata.get("userinfo_endpoint"):
            return claims
        more = dict(self._client.userinfo(token=token))
        if more.get("sub") != claims["sub"]:
            raise RefusalError(502, english("{provider} told of somebody else than who logged in.", provider=self.name))
        return more | claims

    def _person(self, claims: Mapping[str, Any]) -> Person:
        name, given = claims.get(self.settings.person), claims.get(self.settings.claim)
        if not isinstance(name, str) or not name.strip():
            raise RefusalError(
                403,
                english(
                    "{provider} says no name of you (the claim {claim!r} is missing).",
                    provider=self.name,
                    claim=self.settings.person,
                ),
            )
        if self.settings.person == "email" and claims.get("email_verified") is False:
            raise RefusalError(
                403,
                english("{provider} has not verified your address, so it cannot stand for you.", provider=self.name),
            )
        values = given if isinstance(given, list) else [given]
        rules = [self.settings.roles[one] for one in values if isinstance(one, str) and one in self.settings.roles]
        if not rules:
            log.info("somebody without a role was refused", extra={"provider": self.name})
            raise RefusalError(
                403,
                english(
                    "{provider} knows you as {name!r}, but nothing here is open to you. Ask whoever runs the server.",
                    provider=self.name,
                    name=name,
                ),
            )
        role = max((Role(one.role) for one in rules), key=RANKS.index)
        if not role.may(Role.REVIEWER):
            raise RefusalError(
                403, english("your role is {role}, which is for machines: there is no page for it.", role=role)
            )
        sites = [one.sites for one in rules if one.role == role]
        seen = None if None in sites else frozenset(site for some in sites for site in some or ())
        return Person(name=name.strip(), issuer=self._issuer, subject=str(claims["sub"]), role=role, sites=seen)


@contextmanager
def _told(name: str) -> Iterator[None]:
    """Turn what can go wrong with a provider into a refusal that people understand; the log has the rest."""
    try:
        yield
    except (httpx2.HTTPError, httpx2.InvalidURL) as error:
        log.warning("the provider of logins cannot be reached", extra=_why(name, error))
        raise RefusalError(
            503, english("{provider} cannot be reached now. Try again, or log in with a key.", provider=name)
        ) from error
    except (OAuthError, JoseError, ValueError, KeyError, TypeError, RuntimeError) as error:
        if isinstance(error, IndubioError):
            raise
        log.warning("a login was not accepted", extra=_why(name, error))
        raise RefusalError(
            403, english("what {provider} sent is not valid, so nobody was logged in. Begin again.", provider=name)
        ) from error


def _why(name: str, error: Exception) -> dict[str, str]:
    return {"provider": name, "error": f"{type(error).__name__}: {error}"[:500]}
