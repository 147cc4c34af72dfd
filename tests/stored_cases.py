"""Cases as the server would keep them, for tests of what is stored."""

import uuid
from collections.abc import Sequence
from typing import Any

from indubio_server.store import (
    Assessed,
    Case,
    ServerStore,
    add_cases,
    append,
    case_by_reference,
    case_rows,
    cases,
    locked_head,
    now,
    row_seal,
)


def assessed(**changes: Any) -> Assessed:
    """A referred example."""
    plain: dict[str, Any] = {
        "reference": uuid.uuid4().hex,
        "at": now(),
        "model": "press",
        "version": 1,
        "sha256": "a" * 64,
        "rule": "0123456789ab",
        "machine": "press-1",
        "external_id": None,
        "verdict": "REFER",
        "reason": "uncertain-aleatoric",
        "prediction": True,
        "probability": 0.55,
        "epistemic": 0.05,
        "aleatoric": 0.15,
        "total": 0.2,
        "exceed": 0.4,
        "var_nll": 0.01,
        "nll": 1 / 3,
        "novelty": 0.6,
        "p_value": 0.02,
        "notes": "",
        "input": b'{"pressure":5.25,"flow":1.5}',
    }
    return Assessed(**plain | changes)


def stored(store: ServerStore, found: Sequence[Assessed]) -> list[Case]:
    """The cases in the store, with the audit entry that covers them."""

    def keep(connection: Any) -> None:
        rows = case_rows(connection, found, locked_head(connection).seq + 1)
        records = [
            {
                "input": row["input_hash"],
                "verdict": row["verdict"],
                "case": row["reference"],
                "row": row_seal(cases, row),
            }
            for row in rows
        ]
        append(connection, "verdicts", {"records": records})
        add_cases(connection, rows)

    store.write(keep)
    return store.read(lambda c: [case_by_reference(c, one.reference) for one in found])
