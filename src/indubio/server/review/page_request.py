"""A request to a page: who asks, what they may, what they sent, and how the answer is made.

Every page is a function of a `PageRequest` that gives a response and may block: it runs in a thread. Every form carries
a token that only pages of this server can know, and the session's cookie is never sent from other sites (SameSite), so
no other site can act in a reviewer's name.
"""

import hmac
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar
from urllib.parse import urlencode

from sqlalchemy import Connection
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import FormData, UploadFile
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Route
from starlette.types import Message

from indubio.errors import ConfigError, IndubioError
from indubio.server.http.error_answers import RefusalError, refusal_of
from indubio.server.review.page_context import PageContext
from indubio.server.review.templating import rendered
from indubio.server.store.keys import Role, hashed
from indubio.server.store.reviews import progress
from indubio.texts import LANGUAGES, _, in_language, preferred

T = TypeVar("T")
SESSION, VISITOR, LANGUAGE = "indubio_session", "indubio_visitor", "indubio_language"


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
        """Who asks: `name` and `role`; None where nobody is logged in."""
        return self.request.state.actor

    @property
    def reviewer(self) -> str:
        """The name of who asks, as the audit trail has it."""
        return str(self.actor.name)

    @property
    def is_admin(self) -> bool:
        """Whether models may be changed."""
        return self.actor is not None and self.actor.role.may(Role.ADMIN)

    @property
    def query(self) -> Mapping[str, str]:
        """The parameters of the address, after the question mark."""
        return self.request.query_params

    @property
    def address(self) -> str:
        """Path and query of a page that can be asked for again; the queue where this was a form."""
        if self.request.method != "GET":
            return "/review"
        return f"{self.request.url.path}?{self.request.url.query}".rstrip("?")

    @property
    def language(self) -> str:
        """What the switch on the page says, else the server's setting, else what the browser likes best."""
        chosen, default = self.request.cookies.get(LANGUAGE), self.context.settings.language
        if chosen in LANGUAGES:
            return str(chosen)
        return preferred(self.request.headers.get("accept-language", "")) if default == "auto" else default

    def number(self, name: str) -> int:
        """A whole number in the path."""
        return int(self.request.path_params[name])

    def text(self, name: str, default: str = "") -> str:
        """A text field of the form."""
        value = self.form.get(name, default)
        if isinstance(value, UploadFile):
            raise ConfigError(f"the field {name!r} must be text, not a file.")
        return value

    def file(self, name: str) -> tuple[str, bytes] | None:
        """Name and content of a file of the form; None where none was chosen."""
        value = self.form.get(name)
        if not isinstance(value, UploadFile) or not value.filename:
            return None
        return value.filename, value.file.read()

    def read(self, function: Callable[[Connection], T]) -> T:
        """Read from the store."""
        return self.context.store.read(function)

    def write(self, function: Callable[[Connection], T]) -> T:
        """Write to the store, and wait until it is durable."""
        return self.context.store.write(function)

    def render(self, template: str, *, status: int = 200, **values: Any) -> HTMLResponse:
        """Fill in a template, with what every page shows."""
        common: dict[str, Any] = {"actor": self.actor, "is_admin": self.is_admin, "token": self.token, "progress": None}
        if self.actor is not None and status < 500:
            common["progress"] = self.read(progress)
        common["here"] = self.request.url.path
        common["address"] = self.address
        return HTMLResponse(rendered(template, **common | values), status_code=status)

    def redirect(self, path: str, **query: Any) -> RedirectResponse:
        """Send the browser to another page."""
        said = {name: str(value) for name, value in query.items() if value not in (None, "")}
        return RedirectResponse(f"{path}?{urlencode(said)}" if said else path, status_code=303)


Handler = Callable[[PageRequest], Response]


def route(
    context: PageContext, path: str, handler: Handler, *, method: str = "GET", needs: Role | None = Role.REVIEWER
) -> Route:
    """The route of a page.

    Args:
        context: what the pages work with.
        path: the address.
        handler: makes the answer; runs in a thread.
        method: GET or POST.
        needs: the role that is needed; None lets everybody in.
    """

    async def answer(request: Request) -> Response:
        visitor = request.cookies.get(VISITOR)
        fresh = None if visitor else secrets.token_urlsafe(32)
        token = _token(request.cookies.get(SESSION) or visitor or fresh or "")
        form = await _form(request, context.settings.largest_body) if method == "POST" else FormData()
        page = PageRequest(request=request, context=context, token=token, form=form)
        with in_language(page.language):  # the thread inherits it
            response = await run_in_threadpool(_guarded, page, handler, needs)
        await form.close()
        if fresh is not None:
            keep(response, VISITOR, fresh, request)
        response.headers.setdefault("Cache-Control", "no-store")
        return response

    return Route(path, answer, methods=[method], name=f"{method} {path}", include_in_schema=False)


async def _form(request: Request, largest: int) -> FormData:
    """Read the posted form; refuse one that is too large."""
    size = 0

    async def received() -> Message:
        nonlocal size
        message = await request.receive()
        size += len(message.get("body", b""))
        if size > largest:
            raise RefusalError(413, f"the form has more than {largest} bytes.")
        return message

    return await Request(request.scope, received).form()


def keep(response: Response, name: str, value: str, request: Request) -> None:
    """Set a cookie that scripts cannot read and other sites cannot send."""
    secure = request.url.scheme == "https"
    response.set_cookie(name, value, httponly=True, samesite="strict", secure=secure, path="/")


def safe_path(text: str) -> str:
    """A path on this server to go on with; the start page for all that could lead elsewhere."""
    plain = text.startswith("/") and not text.startswith(("//", "/\\")) and text.isprintable()
    return text if plain else "/review"


def _guarded(page: PageRequest, handler: Handler, needs: Role | None) -> Response:
    try:
        if needs is not None and page.actor is None:
            return page.redirect("/login", then=page.address if page.request.method == "GET" else None)
        if needs is not None and not page.actor.role.may(needs):
            return _refused(
                page,
                403,
                _("this needs a key of the role {needs}; yours is {role}.", needs=needs, role=page.actor.role),
            )
        if page.request.method == "POST" and not _comes_from_us(page):
            return _refused(page, 403, _("the form was out of date. Go back, load the page again and repeat."))
        return handler(page)
    except IndubioError as error:
        refusal = refusal_of(error) or RefusalError(400, str(error))
        return _refused(page, refusal.status, str(refusal))


def _refused(page: PageRequest, status: int, why: str) -> Response:
    return page.render("refused.html", status=status, why=why)


def _token(secret: str) -> str:
    return hashed(f"form of {secret}")


def _comes_from_us(page: PageRequest) -> bool:
    headers = page.request.headers
    if SESSION not in page.request.cookies and ("authorization" in headers or "x-api-key" in headers):
        return True  # no browser adds a key by itself: a program sent this on purpose
    return hmac.compare_digest(page.text("token").encode(), page.token.encode())
