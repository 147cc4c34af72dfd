"""Logging in, with a key or at a provider that vouches for people; and logging out.

The pages before and after a visit to the provider are ordinary pages that lead on by themselves, not redirects: a
browser that comes from another site does not send the session's cookie along a redirect (SameSite=Strict), and our
content policy lets no form end at another site.
"""

import secrets

from sqlalchemy import Connection
from starlette.responses import RedirectResponse, Response

from indubio.errors import NotFoundError
from indubio.texts import _, english, known_language
from indubio_server.http import CALLBACK
from indubio_server.review.page_request import LANGUAGE, SESSION, PageRequest, keep, safe_path
from indubio_server.store import Role, close_session, hashed, keys_in_use, open_person_session, open_session

ATTEMPT = "indubio_login"  # the cookie of the browser that began to log in at the provider
MINUTES = 10


def form(page: PageRequest) -> Response:
    """Show the form for the key, and the way to the provider where there is one."""
    return _form(page, safe_path(page.query.get("then", "/review")))


def log_in(page: PageRequest) -> Response:
    """Open a session for the key of a reviewer or an admin."""
    then = safe_path(page.text("then", "/review"))
    key = page.read(keys_in_use).get(hashed(page.text("key").strip()))
    if key is None or not key.role.may(Role.REVIEWER):
        page.request.state.refuse_wrong_key()
        return _form(page, then, wrong=True)
    secret = page.write(lambda c: open_session(c, key))
    response = page.redirect(then)
    keep(response, SESSION, secret, page)
    return response


def to_provider(page: PageRequest) -> Response:
    """Send the browser to the provider."""
    login = page.context.login
    if login is None:
        raise NotFoundError(english("this server knows no provider to log in with."))
    browser = secrets.token_urlsafe(32)
    response = RedirectResponse(login.begin(browser, safe_path(page.query.get("then", "/review"))), status_code=303)
    # Lax, for the provider's redirect must bring it back; only to the callback, and only for a while.
    response.set_cookie(
        ATTEMPT, browser, max_age=60 * MINUTES, path=CALLBACK, httponly=True, samesite="lax", secure=page.context.secure
    )
    return response


def from_provider(page: PageRequest) -> Response:
    """Open a session for whoever comes back from the provider, in place of any that the browser had."""
    login = page.context.login
    if login is None:
        raise NotFoundError(english("this server knows no provider to log in with."))
    person, id_token, then = login.finish(page.query, page.cookie(ATTEMPT))
    before = page.cookie(SESSION)

    def opened(connection: Connection) -> str:
        if before:
            close_session(connection, before)
        return open_person_session(connection, person, provider=login.rules, id_token=id_token)

    secret = page.write(opened)
    response = page.render("onward.html", said=_("You are logged in"), to=then, on=_("Go on"))
    keep(response, SESSION, secret, page)
    response.delete_cookie(ATTEMPT, path=CALLBACK)
    return response


def choose_language(page: PageRequest) -> Response:
    """Keep the language that was chosen, and go back to the page."""
    chosen = known_language(page.query.get("to", ""))
    response = page.redirect(safe_path(page.query.get("then", "/review")))
    keep(response, LANGUAGE, chosen, page, samesite="lax")  # so that it holds on the way back from the provider
    return response


def log_out(page: PageRequest) -> Response:
    """End the session and forget the cookie; whoever came from the provider is logged out there too."""
    secret = page.cookie(SESSION)
    id_token = page.write(lambda c: close_session(c, secret)) if secret else None
    login = page.context.login
    there = None if id_token is None or login is None else login.goodbye(id_token)
    response: Response
    if login is None or there is None:
        response = page.redirect("/login")
    else:
        said = _("Log out of {provider} too", provider=login.name)
        response = page.render(
            "onward.html", actor=None, progress=None, said=_("You are logged out here"), to=there, on=said
        )
    response.delete_cookie(SESSION, path="/")
    return response


def _form(page: PageRequest, then: str, *, wrong: bool = False) -> Response:
    provider = None if page.context.login is None else page.context.login.name
    return page.render("login.html", status=401 if wrong else 200, then=then, wrong=wrong, provider=provider)
