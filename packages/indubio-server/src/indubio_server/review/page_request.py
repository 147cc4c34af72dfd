"""A request to a page: who asks, what they may, what they sent, and how the answer is made.

Every page is a function of a `PageRequest` that gives a response and may block: it runs in a thread. Every form carries
a token that only pages of this server can know, and the session's cookie is never sent from other sites (SameSite), so
no other site can act in a reviewer's name.
"""

import hmac
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal, TypeVar
from urllib.parse import urlencode

import anyio.to_thread
from sqlalchemy import Connection
from starlette.datastructures import FormData, UploadFile
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Route

from indubio.errors import ConfigError, IndubioError, NotFoundError
from indubio.texts import LANGUAGES, english, in_language, preferred, told
from indubio_server.http import (
    CALLBACK,
    COOKIE,
    RefusalError,
    cookie_value,
    is_whole_number,
    read_form,
    refusal_of,
    require_everywhere,
)
from indubio_server.review.page_context import PageContext
from indubio_server.review.templating import rendered
from indubio_server.store import Filters, Role, hashed, progress

T = TypeVar("T")
SESSION, VISITOR, LANGUAGE = COOKIE, "indubio_visitor", "indubio_language"
LARGEST_FORM = 64 * 2**10  # bytes of a form without a file


@dataclass(frozen=True, kw_only=True, eq=False)
class PageRequest:
    """A request to a page, with all that the page needs.

    Args:
        request: as it came.
        context: what the pages work with.
        token: what a form must send back.
        form: what was posted; empty for a GET.
    """

    request: Request
    context: PageContext
    token: str
    form: FormData

    @property
    def actor(self) -> Any:
        """Who asks: `name`, `role` and `sites`; None where nobody is logged in."""
        return self.request.state.actor

    @property
    def reviewer(self) -> str:
        """The name of who asks, as the audit trail has it."""
        return str(self.actor.name)

    @property
    def is_admin(self) -> bool:
        """Whether models may be changed: they are for all sites."""
        return self.actor is not None and self.actor.role.may(Role.ADMIN) and self.actor.everywhere

    @property
    def seen(self) -> Filters:
        """The cases that may be seen: all, or those of some sites."""
        return Filters(machines=self.context.plant.patterns(self.actor.sites))

    @property
    def place(self) -> str | None:
        """The site or line that the address asks for."""
        return self.query.get("site") or None

    @property
    def chosen(self) -> Filters:
        """The cases that may be seen, of the site or line that the address asks for."""
        return Filters(machines=self.context.plant.patterns(self.actor.sites, self.place))

    @property
    def query(self) -> Mapping[str, str]:
        """The parameters of the address, after the question mark."""
        return self.request.query_params

    @property
    def address(self) -> str:
        """Path and query of a page that can be asked for again; the queue where this was a form, or a login's end."""
        if self.request.method != "GET" or self.request.url.path == CALLBACK:
            return "/review"
        return f"{self.request.url.path}?{self.request.url.query}".rstrip("?")

    @property
    def language(self) -> str:
        """What the switch on the page says, else the server's setting, else what the browser likes best."""
        chosen, default = self.cookie(LANGUAGE), self.context.settings.language
        if chosen in LANGUAGES:
            return str(chosen)
        return preferred(self.request.headers.get("accept-language", "")) if default == "auto" else default

    def number(self, name: str) -> int:
        """A whole number in the path; there is nothing where it is none."""
        text = self.request.path_params[name]
        if not is_whole_number(text):
            raise NotFoundError(english("there is nothing with such a number."))
        return int(text)

    def cookie(self, name: str) -> str | None:
        """The value of a cookie, where the browser sent it."""
        return cookie_value(self.request.state.headers, name)

    def text(self, name: str, default: str = "") -> str:
        """A text field of the form."""
        value = self.form.get(name, default)
        if isinstance(value, UploadFile):
            raise ConfigError(english("the field {name!r} must be text, not a file.", name=name))
        if "\0" in value or not _is_unicode(value):  # databases stumble over both
            raise ConfigError(english("the field {name!r} has characters that are no text.", name=name))
        return value

    def file(self, name: str) -> tuple[str, bytes] | None:
        """Name and content of a file of the form; None where none was chosen."""
        value = self.form.get(name)
        if not isinstance(value, UploadFile) or not value.filename:
            return None
        return value.filename, value.file.read()

    def read(self, function: Callable[[Connection], T]) -> T:
        """What a function of a connection reads from the store."""
        return self.context.store.read(function)

    def write(self, function: Callable[[Connection], T]) -> T:
        """Write to the store, and wait until it is durable."""
        return self.context.store.write(function)

    def render(self, template: str, *, status: int = 200, **values: Any) -> HTMLResponse:
        """Fill in a template, with what every page shows."""
        common: dict[str, Any] = {"actor": self.actor, "is_admin": self.is_admin, "token": self.token, "progress": None}
        if self.actor is not None and status < 500:
            common["progress"] = self.read(lambda c: progress(c, self.seen))
            common["lines"] = self.context.plant.chosen_lines(self.actor.sites)
            common["place"] = self.place
        common["here"] = self.request.url.path
        common["address"] = self.address
        return HTMLResponse(rendered(template, **common | values), status_code=status)

    def redirect(self, path: str, **query: Any) -> RedirectResponse:
        """Send the browser to another page."""
        said = {name: str(value) for name, value in query.items() if value not in (None, "")}
        return RedirectResponse(f"{path}?{urlencode(said)}" if said else path, status_code=303)


Handler = Callable[[PageRequest], Response]


def route(
    context: PageContext,
    path: str,
    handler: Handler,
    *,
    method: str = "GET",
    needs: Role | None = Role.REVIEWER,
    upload: bool = False,
) -> Route:
    """The route of a page.

    Args:
        context: what the pages work with.
        path: the address.
        handler: makes the answer; runs in a thread.
        method: GET or POST.
        needs: the role that is needed; None lets everybody in.
        upload: whether the form has a file, and so may be as large as any body.
    """
    largest = context.settings.largest_body if upload else min(LARGEST_FORM, context.settings.largest_body)

    async def answer(request: Request) -> Response:
        headers = request.state.headers
        visitor = cookie_value(headers, VISITOR)
        fresh = None if visitor else secrets.token_urlsafe(32)
        token = _token(cookie_value(headers, SESSION) or visitor or fresh or "")
        page = PageRequest(request=request, context=context, token=token, form=FormData())
        unread: RefusalError | None = None
        if method == "POST" and (_may(page, needs) and _may_have_token(page)):  # nobody else's form is even read
            try:
                page = replace(page, form=await read_form(request.scope, request.receive, headers, largest))
            except RefusalError as error:
                unread = error
        with in_language(page.language):  # the thread inherits it
            answered = partial(_guarded, page, handler, needs, unread)
            response = await anyio.to_thread.run_sync(answered, limiter=context.threads)
        await page.form.close()
        if fresh is not None:
            keep(response, VISITOR, fresh, page)
        response.headers.setdefault("Cache-Control", "no-store")
        return response

    return Route(path, answer, methods=[method], name=f"{method} {path}", include_in_schema=False)


def keep(
    response: Response, name: str, value: str, page: PageRequest, *, samesite: Literal["strict", "lax"] = "strict"
) -> None:
    """Set a cookie that scripts cannot read and other sites cannot send; with "lax", links of other sites can."""
    secure = page.context.secure or page.request.url.scheme == "https"
    response.set_cookie(name, value, httponly=True, samesite=samesite, secure=secure, path="/")


def safe_path(text: str) -> str:
    """A path on this server to go on with; the start page for all that could lead elsewhere."""
    plain = text.startswith("/") and not text.startswith(("//", "/\\")) and text.isprintable()
    return text if plain else "/review"


def _guarded(page: PageRequest, handler: Handler, needs: Role | None, unread: RefusalError | None) -> Response:
    try:
        if needs is not None and page.actor is None:
            return page.redirect("/login", then=page.address if page.request.method == "GET" else None)
        if not _may(page, needs):
            role = page.actor.role
            return _refused(
                page, 403, english("this needs a key of the role {needs}; yours is {role}.", needs=needs, role=role)
            )
        if needs is Role.ADMIN:
            require_everywhere(page.actor)
        if unread is not None:
            raise unread
        if page.request.method == "POST" and not _comes_from_us(page):
            return _refused(page, 403, english("the form was out of date. Go back, load the page again and repeat."))
        return handler(page)
    except IndubioError as error:
        refusal = refusal_of(error) or RefusalError(400, str(error))
        return _refused(page, refusal.status, str(refusal), refusal.headers)


def _may(page: PageRequest, needs: Role | None) -> bool:
    return needs is None or (page.actor is not None and page.actor.role.may(needs))


def _refused(page: PageRequest, status: int, why: str, headers: Mapping[str, str] | None = None) -> Response:
    response = page.render("refused.html", status=status, why=told(why))
    response.headers.update(headers or {})
    return response


def _token(secret: str) -> str:
    return hashed(f"form of {secret}")


def _may_have_token(page: PageRequest) -> bool:
    """Whether a form can carry the right token at all: it is made from a cookie that came with the page."""
    return bool(_sent_by_program(page) or page.cookie(SESSION) or page.cookie(VISITOR))


def _comes_from_us(page: PageRequest) -> bool:
    if _sent_by_program(page):
        return True
    return hmac.compare_digest(page.text("token").encode(), page.token.encode())


def _sent_by_program(page: PageRequest) -> bool:
    """Whether a key was sent: no browser adds one by itself."""
    headers = page.request.headers
    return page.cookie(SESSION) is None and ("authorization" in headers or "x-api-key" in headers)


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:  # a lone surrogate
        return False
    return True
