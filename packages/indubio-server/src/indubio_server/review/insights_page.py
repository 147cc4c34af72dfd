"""The insights page: does referral pay, do reviewers agree, and what would another budget have done."""

from typing import Any

from markupsafe import Markup
from matplotlib.axes import Axes
from starlette.responses import HTMLResponse, Response

from indubio.errors import ConfigError
from indubio.evaluation import RejectionCurve
from indubio.report import POINTS, WIDTH, plot_rejection_curves
from indubio.texts import _, english
from indubio_server.http import whole_number
from indubio_server.review.label_evidence import LabelEvidence, OtherThreshold, evidence
from indubio_server.review.page_request import PageRequest
from indubio_server.review.templating import rendered
from indubio_server.store import agreement

SIZE = WIDTH, 2.9  # inches


def insights(page: PageRequest) -> Response:
    """Show what the reviews say of a model."""
    name, version = chosen_model(page)
    labels = _evidence(page, name, version)
    curves = labels.curves()
    return page.render(
        "insights.html",
        names=page.context.registry.names,
        versions=[known.version for known in page.context.registry.known(name)],
        evidence=labels,
        curves=curves,
        curve=_curve(page, curves) if curves else None,
        agreement=page.read(lambda c: agreement(c, page.chosen)),
        **_budget(page, labels, name, version),
    )


def budget(page: PageRequest) -> Response:
    """Show the part of the page that the slider changes."""
    name, version = chosen_model(page)
    return HTMLResponse(rendered("budget.html", **_budget(page, _evidence(page, name, version), name, version)))


def chosen_model(page: PageRequest) -> tuple[str, int | None]:
    """The model that the address names, the first where it names none, and perhaps a version."""
    name = page.query.get("model") or page.context.registry.names[0]
    page.context.registry.model(name)
    version = page.query.get("version", "")
    return name, whole_number(version, "version") if version else None


def asked_share(text: str) -> float | None:
    """A percentage of a form as a share; None where the field is empty."""
    if not text:
        return None
    try:
        percent = float(text)
    except ValueError:
        percent = float("nan")
    if not 0 <= percent <= 100:
        raise ConfigError(english("the budget must be a percentage from 0 to 100, got {got!r}.", got=text))
    return percent / 100


def other_threshold(page: PageRequest, name: str, version: int | None, share: float) -> OtherThreshold | None:
    """The threshold that meets a budget, and what it would have done with the kept cases."""
    return _evidence(page, name, version).at_share(share, _rule(page, name)["referral"]["by"])


def _evidence(page: PageRequest, name: str, version: int | None) -> LabelEvidence:
    share = page.context.settings.control_share
    return page.read(lambda c: evidence(c, name, version=version, control_share=share, filters=page.chosen))


def _rule(page: PageRequest, name: str) -> dict[str, Any]:
    return page.context.registry.model(name).model.rule


def _budget(page: PageRequest, labels: LabelEvidence, name: str, version: int | None) -> dict[str, Any]:
    rule, judge = _rule(page, name), page.context.registry.model(name).model.judge
    by = rule["referral"]["by"]
    plain = judge.rule.by_threshold
    present = labels.at_present(float(rule["referral_threshold"]) if plain else None) if len(labels) else None
    share = asked_share(page.query.get("share", ""))
    if share is None and present is not None:
        share = present.referred / present.of
    other = None if share is None else labels.at_share(share, by)
    return {
        "model": name,
        "version_shown": version,
        "by": by,
        "present": present,
        "other": other,
        "share": share,
        "days": labels.days,
        "estimated": labels.has_control and labels.control_share > 0,
        "is_admin": page.is_admin and page.place is None,  # a model is for all sites, and so is its threshold
        "place": page.place,
        "token": page.token,
        "known": bool(labels.labelled.any()),
    }


def _curve(page: PageRequest, curves: dict[str, RejectionCurve]) -> Markup:
    def draw(axes: Axes) -> None:
        plot_rejection_curves(axes, curves, most=POINTS)
        axes.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=1)

    return page.context.plots.one(_("Accuracy-rejection curves of the reviewed cases"), draw, SIZE)
