"""The status page: alarms, drift, the referral budget and the queue."""

from datetime import timedelta
from typing import Any

from sqlalchemy import Connection, func, select
from starlette.responses import Response

from indubio.server.review.page_request import PageRequest
from indubio.server.store.alarms import alarm_history, ringing
from indubio.server.store.cases import machines, oldest_waiting, referred_since
from indubio.server.store.clock import now
from indubio.server.store.tables import alarms, cases

HOUR = timedelta(hours=1)
EVENTS = 20


def status(page: PageRequest) -> Response:
    """Show how machines, data and queue are doing."""

    def looked_up(connection: Connection) -> dict[str, Any]:
        rings = ringing(connection)
        known = {row.machine for row in connection.execute(select(alarms.c.machine))}
        beyond = select(func.count()).select_from(cases).where(cases.c.overflow, cases.c.at >= now() - HOUR)
        return {
            "rings": rings,
            "quiet": sorted((known | set(machines(connection))) - set(rings) - {""}),
            "events": alarm_history(connection, limit=EVENTS),
            "oldest": oldest_waiting(connection),
            "referred": referred_since(connection, now() - HOUR),
            "beyond": int(connection.execute(beyond).scalar_one()),
        }

    settings, registry = page.context.settings, page.context.registry
    active = {name: registry.model(name) for name in registry.names}
    watched = {one.loaded: one.drift for one in page.context.drift.watched()}
    return page.render(
        "status.html",
        rule=settings.alarm,
        per_hour=settings.referrals_per_hour,
        drift=[(name, loaded.version, watched.get(loaded)) for name, loaded in active.items()],
        **page.read(looked_up),
    )
