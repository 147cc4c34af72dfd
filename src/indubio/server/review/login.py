"""Logging in with a key, and out again."""

from starlette.responses import Response

from indubio.server.review.page_requests import SESSION, Visit, keep, safe_path
from indubio.server.store.keys import Role, close_session, hashed, keys_in_use, open_session


def form(visit: Visit) -> Response:
    """Where to enter the key."""
    return visit.page("login.html", then=safe_path(visit.query.get("then", "/review")), wrong=False)


def log_in(visit: Visit) -> Response:
    """A session for whoever has the key of a reviewer or an admin."""
    then = safe_path(visit.text("then", "/review"))
    key = visit.read(keys_in_use).get(hashed(visit.text("key").strip()))
    if key is None or not key.role.may(Role.REVIEWER):
        return visit.page("login.html", status=401, then=then, wrong=True)
    secret = visit.write(lambda c: open_session(c, key))
    response = visit.to(then)
    keep(response, SESSION, secret, visit.request)
    return response


def log_out(visit: Visit) -> Response:
    """End the session."""
    secret = visit.request.cookies.get(SESSION)
    if secret:
        visit.write(lambda c: close_session(c, secret))
    response = visit.to("/login")
    response.delete_cookie(SESSION, path="/")
    return response
