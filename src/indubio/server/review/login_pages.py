"""Logging in with a key, and logging out."""

from starlette.responses import Response

from indubio.server.review.page_request import LANGUAGE, SESSION, PageRequest, keep, safe_path
from indubio.server.store.keys import Role, close_session, hashed, keys_in_use, open_session
from indubio.texts import known_language


def form(page: PageRequest) -> Response:
    """Show the form for the key."""
    return page.render("login.html", then=safe_path(page.query.get("then", "/review")), wrong=False)


def log_in(page: PageRequest) -> Response:
    """Open a session for the key of a reviewer or an admin."""
    then = safe_path(page.text("then", "/review"))
    key = page.read(keys_in_use).get(hashed(page.text("key").strip()))
    if key is None or not key.role.may(Role.REVIEWER):
        return page.render("login.html", status=401, then=then, wrong=True)
    secret = page.write(lambda c: open_session(c, key))
    response = page.redirect(then)
    keep(response, SESSION, secret, page.request)
    return response


def choose_language(page: PageRequest) -> Response:
    """Keep the language that was chosen, and go back to the page."""
    chosen = known_language(page.query.get("to", ""))
    response = page.redirect(safe_path(page.query.get("then", "/review")))
    keep(response, LANGUAGE, chosen, page.request)
    return response


def log_out(page: PageRequest) -> Response:
    """End the session and forget the cookie."""
    secret = page.request.cookies.get(SESSION)
    if secret:
        page.write(lambda c: close_session(c, secret))
    response = page.redirect("/login")
    response.delete_cookie(SESSION, path="/")
    return response
