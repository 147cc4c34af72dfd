"""The status page: alarms, drift, the referral budget and the queue, by site and line where there is a plant."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Connection
from starlette.responses import Response

from indubio_server.plant import Plant, PlantLine
from indubio_server.review.page_request import PageRequest
from indubio_server.store import (
    Status,
    alarm_history,
    alarmed_machines,
    count_by_machine,
    machines,
    now,
    oldest_waiting,
    ringing,
)

HOUR = timedelta(hours=1)
EVENTS = 20


@dataclass(frozen=True, kw_only=True)
class LineStatus:
    """How the machines of a line are doing.

    Args:
        line: which; None for machines that no line names.
        rings: machines that ring, and since when.
        quiet: the others.
        referred: referrals of the last hour.
        waiting: cases that wait.
    """

    line: PlantLine | None
    rings: dict[str, datetime]
    quiet: list[str]
    referred: int
    waiting: int


def status(page: PageRequest) -> Response:
    """Show how machines, data and queue are doing."""
    seen = page.chosen
    hour = replace(seen, since=now() - HOUR, until=now())  # a clock may once have been ahead

    def looked_up(connection: Connection) -> dict[str, Any]:
        rings = ringing(connection, seen.machines)
        known = {*alarmed_machines(connection, seen.machines), *machines(connection, seen)}
        referred = count_by_machine(connection, replace(hour, verdict="REFER"))
        waiting = count_by_machine(connection, seen, status=Status.WAITING)
        return {
            "rings": rings,
            "groups": line_statuses(page.context.plant, _shown_lines(page), rings, known, referred, waiting),
            "events": alarm_history(connection, machines=seen.machines, limit=EVENTS),
            "oldest": oldest_waiting(connection, seen),
            "referred": sum(referred.values()),
            "beyond": sum(count_by_machine(connection, replace(hour, overflow=True)).values()),
        }

    settings, registry = page.context.settings, page.context.registry
    active = {name: registry.model(name) for name in registry.names}
    watched = {one.loaded: one.drift for one in page.context.drift.watched()}
    return page.render(
        "status.html",
        rule=settings.alarm,
        per_hour=settings.referrals_per_hour if seen.machines is None else None,  # the budget is of all sites
        drift=[(name, loaded.version, watched.get(loaded)) for name, loaded in active.items()],
        **page.read(looked_up),
    )


def line_statuses(
    plant: Plant,
    lines: Sequence[PlantLine | None],
    rings: Mapping[str, datetime],
    known: Iterable[str],
    referred: Mapping[str, int],
    waiting: Mapping[str, int],
) -> list[LineStatus]:
    """Machines by line: all lines, and at the end the machines of none, where there are any.

    Args:
        plant: says where a machine stands.
        lines: those to show.
        rings: machines that ring, and since when.
        known: machines that were heard of.
        referred: referrals of the last hour, by machine.
        waiting: cases that wait, by machine.
    """

    def of(line: PlantLine | None, counts: Mapping[str, int]) -> int:
        return sum(count for machine, count in counts.items() if plant.place_of(machine) == line)

    groups = []
    for line in lines:
        here = [machine for machine in sorted({*known, *rings}) if plant.place_of(machine) == line]
        group = LineStatus(
            line=line,
            rings={machine: rings[machine] for machine in rings if machine in here},
            quiet=[machine for machine in here if machine not in rings and machine],
            referred=of(line, referred),
            waiting=of(line, waiting),
        )
        if line is not None or here:
            groups.append(group)
    return groups


def _shown_lines(page: PageRequest) -> list[PlantLine | None]:
    lines: list[PlantLine | None] = [*page.context.plant.chosen_lines(page.actor.sites, page.place)]
    return [*lines, None] if page.actor.everywhere and page.place is None else lines
