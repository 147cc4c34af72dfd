"""The pages that people see: the review queue, what the reviews say, models, status, import and export.

    page_request    one request to a page: who asks, what they sent, how the answer is made
    page_context    what all pages share: store, models, plots, jobs
    queue_pages     the queue, and one case at a time; `plots` draws it
    insights_page   what people's labels say of the detector, computed in `label_evidence`
    model_pages     versions of the models, and the jobs that make new ones (see `indubio_server.retraining`)
    import_export   reviews as CSV and as tasks of Label Studio
    downloads       files that are made while they are sent
    status_page     alarms, drift and the referral budget
    login_pages     logging in with a key or at a provider, and choosing a language
    templating      fills in the templates

Pages are rendered on the server. htmx replaces a page's body in place of loading it anew; without scripts all works
the same.
"""

from pathlib import Path

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles

from indubio.errors import NotFoundError
from indubio.texts import english
from indubio_server.http import CALLBACK, PROVIDER
from indubio_server.review import import_export, insights_page, login_pages, model_pages, queue_pages, status_page
from indubio_server.review.page_context import PageContext
from indubio_server.review.page_request import PageRequest, route
from indubio_server.service import Service
from indubio_server.store import Role

__all__ = ["PageContext", "PageRequest", "route", "routes"]


def routes(service: Service) -> list[BaseRoute]:
    """The routes of all review pages."""
    context = PageContext.of(service)
    admin = Role.ADMIN
    return [
        Route("/", _start, include_in_schema=False),
        route(context, "/login", login_pages.form, needs=None),
        route(context, "/login", login_pages.log_in, method="POST", needs=None),
        route(context, PROVIDER, login_pages.to_provider, needs=None),
        route(context, CALLBACK, login_pages.from_provider, needs=None),
        route(context, "/review/language", login_pages.choose_language, needs=None),
        route(context, "/review/logout", login_pages.log_out, method="POST", needs=None),
        route(context, "/review", queue_pages.queue),
        route(context, "/review/next", queue_pages.next_case),
        route(context, "/review/undo", queue_pages.undo_label, method="POST"),
        route(context, "/review/cases/{case}", queue_pages.one_case),
        route(context, "/review/cases/{case}", queue_pages.label, method="POST"),
        route(context, "/review/cases/{case}/comment", queue_pages.comment, method="POST"),
        route(context, "/review/insights", insights_page.insights),
        route(context, "/review/insights/budget", insights_page.budget),
        route(context, "/review/models", model_pages.models),
        route(context, "/review/models/{name}/recalibrate", model_pages.recalibrate, method="POST", needs=admin),
        route(context, "/review/models/{name}/learn", model_pages.learn, method="POST", needs=admin),
        route(context, "/review/models/{name}/retrain", model_pages.retrain, method="POST", needs=admin, upload=True),
        route(context, "/review/models/{name}/activate", model_pages.activate, method="POST", needs=admin),
        route(context, "/review/status", status_page.status),
        route(context, "/review/exchange", import_export.page),
        route(context, "/review/exchange/reviews.csv", import_export.export_csv),
        route(context, "/review/exchange/label-studio.json", import_export.export_label_studio),
        route(context, "/review/exchange/labels", import_export.import_labels, method="POST", upload=True),
        route(context, "/review/{rest:path}", _nothing_here),  # the last of them: what no other has
        Mount("/static", StaticFiles(directory=Path(__file__).parent / "static"), name="static"),
    ]


def _nothing_here(page: PageRequest) -> Response:  # noqa: ARG001 - as every page
    raise NotFoundError(english("there is no such page."))


async def _start(request: Request) -> Response:  # noqa: ARG001 - Starlette passes it
    return RedirectResponse("/review", status_code=303)
