"""The models page: versions side by side, jobs that make new ones, activation and rollback."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from sqlalchemy import Connection, select
from starlette.responses import Response

from indubio.decision import Cost, Reason, Referral, TargetRisk, UncertaintyThreshold
from indubio.errors import ConfigError
from indubio.judging import UncertaintyName
from indubio.texts import english, marked
from indubio_server.http import whole_number
from indubio_server.review.insights_page import asked_share, other_threshold
from indubio_server.review.page_request import PageRequest
from indubio_server.store import Filters, activation_history, active_version, all_jobs, cases, final_labels, versions

MEASURES = {
    "referred": (marked("referred to a person"), "percent"),
    "wrong": (marked("wrong if nobody were asked"), "percent"),
    "wrong_accepted": (marked("wrong and accepted"), "percent"),
    "gss": ("GSS", "point"),
    "auroc": ("AUROC", "point"),
    "w": ("W", "point"),
    "gain": ("Gain", "point"),
}


def models(page: PageRequest) -> Response:
    """Show every model: its versions, what people said of its cases, and the jobs."""

    def looked_up(connection: Connection) -> dict[str, Any]:
        shown: list[dict[str, Any]] = []
        for name in page.context.registry.names:
            active, past = active_version(connection, name), activation_history(connection, name)
            before = [one.version for one in past if active is not None and one.version != active.version]
            shown.append(
                {
                    "name": name,
                    "versions": versions(connection, name)[::-1],
                    "active": None if active is None else active.version,
                    "previous": before[-1] if before else None,
                    "history": past[::-1][:10],
                    "training": name in page.context.jobs.training,
                    **_labels(connection, name, page.seen),
                }
            )
        jobs = all_jobs(connection, limit=10) if page.actor.everywhere else []  # what they tell is of all sites
        return {"models": shown, "jobs": jobs}

    seen = page.read(looked_up)
    response = page.render("models.html", measures=MEASURES, control_share=page.context.settings.control_share, **seen)
    if page.request.headers.get("hx-target") == "jobs" and not any(job.status == "running" for job in seen["jobs"]):
        response.headers["HX-Refresh"] = "true"  # the last job has ended: show the version that it made
    return response


def _labels(connection: Connection, name: str, seen: Filters) -> dict[str, int]:
    """How many cases of a model people called inliers and anomalies, without bad input."""
    said = final_labels(connection)
    chosen = replace(seen, model=name).conditions()
    wanted = select(cases.c.id).where(*chosen, cases.c.reason != Reason.BAD_INPUT.value)
    labels = [said.get(number) for number in connection.execute(wanted).scalars()]
    return {"inliers": labels.count("I"), "anomalies": labels.count("A")}


def recalibrate(page: PageRequest) -> Response:
    """Start a job that makes a version with another referral rule."""
    name = page.request.path_params["name"]
    by = page.context.registry.model(name).model.rule["referral"]["by"]
    kind = page.text("rule") or "threshold"
    if kind not in RULES:
        raise ConfigError(english("`rule` must be one of {known}, got {got!r}.", known=", ".join(RULES), got=kind))
    page.context.jobs.recalibrate(name, RULES[kind](page, name, by), by=page.reviewer)
    return page.redirect("/review/models")


def _threshold(page: PageRequest, name: str, by: UncertaintyName) -> Referral:
    share, version = asked_share(page.text("share")), page.text("version")
    number = whole_number(version, "version") if version else None
    if share is None:
        raise ConfigError(english("say which share may be referred."))
    other = other_threshold(page, name, number, share)
    if other is None or other.threshold is None:
        raise ConfigError(
            english("no case of {name!r} is kept yet: there is nothing to find a threshold on.", name=name)
        )
    return UncertaintyThreshold(by=by, threshold=other.threshold)


def _cost(page: PageRequest, name: str, by: UncertaintyName) -> Referral:  # noqa: ARG001 - as every rule
    names = ("missed_anomaly", "false_alarm", "review")
    prevalence = _number(page, "prevalence") / 100 if page.text("prevalence") else None
    return Cost(by=by, **{one: _number(page, one) for one in names}, prevalence=prevalence)


def _target_risk(page: PageRequest, name: str, by: UncertaintyName) -> Referral:  # noqa: ARG001
    return TargetRisk(by=by, alpha=_number(page, "alpha") / 100, delta=1 - _number(page, "confidence") / 100)


def _number(page: PageRequest, name: str) -> float:
    try:
        return float(page.text(name))
    except ValueError:
        raise ConfigError(english("`{name}` must be a number, got {got!r}.", name=name, got=page.text(name))) from None


RULES: dict[str, Callable[[PageRequest, str, UncertaintyName], Referral]] = {
    "threshold": _threshold,
    "cost": _cost,
    "target_risk": _target_risk,
}


def learn(page: PageRequest) -> Response:
    """Start a job that learns from people's labels."""
    page.context.jobs.learn(page.request.path_params["name"], by=page.reviewer)
    return page.redirect("/review/models")


def retrain(page: PageRequest) -> Response:
    """Start a job that trains a new version."""
    page.context.jobs.retrain(page.request.path_params["name"], upload=page.file("training"), by=page.reviewer)
    return page.redirect("/review/models")


def activate(page: PageRequest) -> Response:
    """Make a version the active one; activating an older one is a rollback."""
    name, version = page.request.path_params["name"], whole_number(page.text("version"), "version")
    present = page.context.registry.model(name).version
    note = "rolled back" if version < present else "activated"
    page.context.registry.activate(name, version, by=page.reviewer, note=note)
    return page.redirect("/review/models")
