"""Models: their versions side by side, jobs that make new ones, activation and the way back."""

from collections.abc import Callable
from typing import Any

from sqlalchemy import Connection, select
from starlette.responses import Response

from indubio.decision import Cost, Reason, Referral, TargetRisk, UncertaintyThreshold
from indubio.errors import ConfigError
from indubio.server.review.insights import asked_share, other_threshold
from indubio.server.review.page_requests import Visit
from indubio.server.store.jobs import all_jobs
from indubio.server.store.reviews import final_labels
from indubio.server.store.tables import cases
from indubio.server.store.versions import activation_history, active_version, versions
from indubio.uncertainty import UncertaintyName

MEASURES = {
    "referred": ("referred to a person", "percent"),
    "wrong": ("wrong if nobody were asked", "percent"),
    "wrong_accepted": ("wrong and accepted", "percent"),
    "gss": ("GSS", "point"),
    "auroc": ("AUROC", "point"),
    "w": ("W", "point"),
    "gain": ("Gain", "point"),
}


def models(visit: Visit) -> Response:
    """The page."""

    def looked_up(connection: Connection) -> dict[str, Any]:
        found: list[dict[str, Any]] = []
        for name in visit.desk.registry.names:
            active, past = active_version(connection, name), activation_history(connection, name)
            before = [one.version for one in past if active is not None and one.version != active.version]
            found.append(
                {
                    "name": name,
                    "versions": versions(connection, name)[::-1],
                    "active": None if active is None else active.version,
                    "previous": before[-1] if before else None,
                    "history": past[::-1][:10],
                    "training": name in visit.desk.jobs.training,
                    **_labels(connection, name),
                }
            )
        return {"models": found, "jobs": all_jobs(connection, limit=10)}

    seen = visit.read(looked_up)
    page = visit.page("models.html", measures=MEASURES, control_share=visit.desk.settings.control_share, **seen)
    if visit.request.headers.get("hx-target") == "jobs" and not any(job.status == "running" for job in seen["jobs"]):
        page.headers["HX-Refresh"] = "true"  # the last job has ended: show the version that it made
    return page


def _labels(connection: Connection, name: str) -> dict[str, int]:
    """How many cases of a model people called what; bad input trains nothing."""
    said = final_labels(connection)
    wanted = select(cases.c.id).where(cases.c.model == name, cases.c.reason != Reason.BAD_INPUT.value)
    labels = [said.get(number) for number in connection.execute(wanted).scalars()]
    return {"inliers": labels.count("I"), "anomalies": labels.count("A")}


def recalibrate(visit: Visit) -> Response:
    """Start a job that gives a version with another referral rule."""
    name = visit.request.path_params["name"]
    by = visit.desk.registry.model(name).model.rule["referral"]["by"]
    kind = visit.text("rule") or "threshold"
    if kind not in RULES:
        raise ConfigError(f"`rule` must be one of {', '.join(RULES)}, got {kind!r}.")
    visit.desk.jobs.recalibrate(name, RULES[kind](visit, name, by), by=visit.name)
    return visit.to("/review/models")


def _threshold(visit: Visit, name: str, by: UncertaintyName) -> Referral:
    share, version = asked_share(visit.text("share")), visit.text("version")
    if share is None:
        raise ConfigError("say which share may be referred.")
    other = other_threshold(visit, name, int(version) if version.isdecimal() else None, share)
    if other is None or other.threshold is None:
        raise ConfigError(f"no case of {name!r} is kept yet: there is nothing to find a threshold on.")
    return UncertaintyThreshold(by=by, threshold=other.threshold)


def _cost(visit: Visit, name: str, by: UncertaintyName) -> Referral:  # noqa: ARG001 - as every rule
    names = ("missed_anomaly", "false_alarm", "review")
    return Cost(by=by, **{one: _number(visit, one) for one in names})


def _target_risk(visit: Visit, name: str, by: UncertaintyName) -> Referral:  # noqa: ARG001
    return TargetRisk(by=by, alpha=_number(visit, "alpha") / 100, delta=1 - _number(visit, "confidence") / 100)


def _number(visit: Visit, name: str) -> float:
    try:
        return float(visit.text(name))
    except ValueError:
        raise ConfigError(f"`{name}` must be a number, got {visit.text(name)!r}.") from None


RULES: dict[str, Callable[[Visit, str, UncertaintyName], Referral]] = {
    "threshold": _threshold,
    "cost": _cost,
    "target_risk": _target_risk,
}


def learn(visit: Visit) -> Response:
    """Start a job that learns from labels."""
    visit.desk.jobs.learn(visit.request.path_params["name"], by=visit.name)
    return visit.to("/review/models")


def retrain(visit: Visit) -> Response:
    """Start a job that trains anew."""
    visit.desk.jobs.retrain(visit.request.path_params["name"], upload=visit.file("training"), by=visit.name)
    return visit.to("/review/models")


def activate(visit: Visit) -> Response:
    """Make a version the active one; an older one is a roll-back."""
    name, version = visit.request.path_params["name"], visit.text("version")
    if not (version.isascii() and version.isdecimal() and len(version) < 10):
        raise ConfigError(f"`version` must be a whole number, got {version!r}.")
    present = visit.desk.registry.model(name).version
    note = "rolled back" if int(version) < present else "activated"
    visit.desk.registry.activate(name, int(version), by=visit.name, note=note)
    return visit.to("/review/models")
