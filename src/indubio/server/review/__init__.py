"""The pages that people see: the review queue, what the reviews say, models, status, import and export.

    visits      a request, who may see what, tokens in forms
    queue       one case at a time, by keyboard
    drawing     its plot
    evidence    what the labels say; `insights` shows it
    models      versions; `jobs` starts work on new ones, `making` does it in a process of its own
    exchange    CSV and Label Studio
    status      alarms and the referral budget

Rendered on the server. htmx replaces the page's body in place of loading it anew; without scripts all works the same.
"""

from pathlib import Path

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles

from indubio.server.review import import_export as exchange
from indubio.server.review import insights, login, queue, status
from indubio.server.review import model_pages as models
from indubio.server.review.page_requests import route
from indubio.server.review.workplace import Desk, Server
from indubio.server.store.keys import Role

__all__ = ["routes"]


def routes(server: Server) -> list[BaseRoute]:
    """Every page of a server."""
    desk = Desk.of(server)
    server.closing.append(desk.close)
    admin = Role.ADMIN
    return [
        Route("/", _start, include_in_schema=False),
        route(desk, "/login", login.form, needs=None),
        route(desk, "/login", login.log_in, method="POST", needs=None),
        route(desk, "/review/logout", login.log_out, method="POST", needs=None),
        route(desk, "/review", queue.queue),
        route(desk, "/review/next", queue.next_case),
        route(desk, "/review/undo", queue.take_back, method="POST"),
        route(desk, "/review/cases/{case:int}", queue.one_case),
        route(desk, "/review/cases/{case:int}", queue.label, method="POST"),
        route(desk, "/review/cases/{case:int}/comment", queue.comment, method="POST"),
        route(desk, "/review/insights", insights.insights),
        route(desk, "/review/insights/budget", insights.budget),
        route(desk, "/review/models", models.models),
        route(desk, "/review/models/{name}/recalibrate", models.recalibrate, method="POST", needs=admin),
        route(desk, "/review/models/{name}/learn", models.learn, method="POST", needs=admin),
        route(desk, "/review/models/{name}/retrain", models.retrain, method="POST", needs=admin),
        route(desk, "/review/models/{name}/activate", models.activate, method="POST", needs=admin),
        route(desk, "/review/status", status.status),
        route(desk, "/review/exchange", exchange.page),
        route(desk, "/review/exchange/reviews.csv", exchange.csv_out),
        route(desk, "/review/exchange/label-studio.json", exchange.label_studio_out),
        route(desk, "/review/exchange/labels", exchange.bring_in, method="POST"),
        Mount("/static", StaticFiles(directory=Path(__file__).parent / "static"), name="static"),
    ]


async def _start(request: Request) -> Response:  # noqa: ARG001 - Starlette passes it
    return RedirectResponse("/review", status_code=303)
