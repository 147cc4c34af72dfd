"""What the reviews say: whether referral pays, how far reviewers agree, and what another budget would have done."""

from typing import Any

from markupsafe import Markup
from matplotlib.axes import Axes
from starlette.responses import HTMLResponse, Response

from indubio.errors import ConfigError
from indubio.evaluation import RejectionCurve
from indubio.report.figures import POINTS
from indubio.report.rejection import plot_rejection_curves
from indubio.server.review.label_evidence import Evidence, OtherThreshold, evidence
from indubio.server.review.page_requests import Visit
from indubio.server.review.templating import rendered
from indubio.server.store.reviews import agreement, progress

LARGEST = 4.6, 3.1  # inches


def insights(visit: Visit) -> Response:
    """The page."""
    name, version = chosen_model(visit)
    found = _evidence(visit, name, version)
    curves = found.curves()
    people = visit.read(lambda c: (agreement(c), progress(c)))
    return visit.page(
        "insights.html",
        names=visit.desk.registry.names,
        versions=[known.version for known in visit.desk.registry.known(name)],
        evidence=found,
        curves=curves,
        curve=_curve(visit, curves) if curves else None,
        agreement=people[0],
        **_budget(visit, found, name, version),
    )


def budget(visit: Visit) -> Response:
    """The part of the page that the slider changes."""
    name, version = chosen_model(visit)
    return HTMLResponse(rendered("budget.html", **_budget(visit, _evidence(visit, name, version), name, version)))


def chosen_model(visit: Visit) -> tuple[str, int | None]:
    """The model that the address names, the first where it names none, and perhaps a version."""
    name = visit.query.get("model") or visit.desk.registry.names[0]
    visit.desk.registry.model(name)
    version = visit.query.get("version", "")
    if version and not (version.isascii() and version.isdecimal() and len(version) < 10):
        raise ConfigError(f"`version` must be a whole number, got {version!r}.")
    return name, int(version) if version else None


def asked_share(text: str) -> float | None:
    """A percentage from a form as a share; None where nothing was asked."""
    if not text:
        return None
    try:
        percent = float(text)
    except ValueError:
        percent = float("nan")
    if not 0 <= percent <= 100:
        raise ConfigError(f"the budget must be a percentage from 0 to 100, got {text!r}.")
    return percent / 100


def other_threshold(visit: Visit, name: str, version: int | None, share: float) -> OtherThreshold | None:
    """What this budget would have meant for the kept cases."""
    return _evidence(visit, name, version).at_share(share, _rule(visit, name)["referral"]["by"])


def _evidence(visit: Visit, name: str, version: int | None) -> Evidence:
    share = visit.desk.settings.control_share
    return visit.read(lambda c: evidence(c, name, version=version, control_share=share))


def _rule(visit: Visit, name: str) -> dict[str, Any]:
    return visit.desk.registry.model(name).model.rule


def _budget(visit: Visit, found: Evidence, name: str, version: int | None) -> dict[str, Any]:
    rule, detector = _rule(visit, name), visit.desk.registry.model(name).detector
    by = rule["referral"]["by"]
    plain = detector is None or detector.settings_in_use().referral.by_threshold
    present = found.at_present(float(rule["referral_threshold"]) if plain else None) if len(found) else None
    share = asked_share(visit.query.get("share", ""))
    if share is None and present is not None:
        share = present.referred / present.of
    other = None if share is None else found.at_share(share, by)
    return {
        "model": name,
        "version_shown": version,
        "by": by,
        "present": present,
        "other": other,
        "share": share,
        "days": found.days,
        "estimated": found.has_control and found.control_share > 0,
        "is_admin": visit.is_admin,
        "token": visit.token,
        "known": bool(found.labelled.any()),
    }


def _curve(visit: Visit, curves: dict[str, RejectionCurve]) -> Markup:
    def draw(axes: Axes) -> None:
        plot_rejection_curves(axes, curves, most=POINTS)
        axes.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=1)

    return visit.desk.drawings.one("Accuracy-rejection curves of the reviewed cases", draw, LARGEST)
