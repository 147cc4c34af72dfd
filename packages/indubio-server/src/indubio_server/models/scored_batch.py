"""A batch with its verdicts: what the audit trail says of them, and what is kept for people."""

import hashlib
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from indubio.chain import Assessment
from indubio.judging import ON_DEMAND
from indubio_server.models.registry import Loaded
from indubio_server.store import Assessed, now


@dataclass(frozen=True, kw_only=True)
class ExampleOrigin:
    """Where an example came from: the machine, the client's own id for it, and the name of the key that sent it."""

    machine: str
    external_id: str | None
    by: str


class ScoredBatch:
    """A batch with its verdicts; what is kept for people has a reference: referrals, and some others for control.

    Args:
        loaded: the version that scored it.
        assessment: what it says.
        inputs: the examples as they are stored.
        origins: where each came from.
        control_share: share of the other verdicts that is kept too.
    """

    def __init__(
        self,
        loaded: Loaded,
        assessment: Assessment,
        inputs: list[bytes],
        origins: list[ExampleOrigin],
        control_share: float,
    ) -> None:
        self.loaded, self.inputs, self.origins, self.at = loaded, inputs, origins, now()
        self.hashes = [hashlib.sha256(one).hexdigest() for one in inputs]
        self.columns: dict[str, list[Any]] = {n: values.tolist() for n, values in assessment.to_dict().items()}
        self._notes = self.columns["notes"]  # messages, which a page can tell in its language
        self.columns["notes"] = [*map(str.__str__, self._notes)]
        self.columns["case"] = [
            secrets.token_hex(16)
            if verdict == "REFER" or (control_share and chosen_for_control(input_hash, control_share))
            else ""
            for verdict, input_hash in zip(self.columns["verdict"], self.hashes, strict=True)
        ]

    def record(self, row: int) -> dict[str, Any]:
        """What the audit trail says of one verdict."""
        origin, columns = self.origins[row], self.columns
        return {
            "input": self.hashes[row],
            "verdict": columns["verdict"][row],
            "reason": columns["reason"][row],
            "probability": columns["probability"][row],
            "total": columns["total"][row],
            "machine": origin.machine,
            "by": origin.by,
        }

    def case(self, row: int) -> Assessed:
        """One example as the store keeps it for people."""
        origin, loaded = self.origins[row], self.loaded
        columns = {name: values[row] for name, values in self.columns.items() if name not in ("case", *ON_DEMAND)}
        for name in ("novelty", "p_value"):  # NaN where the model cannot tell
            columns[name] = None if columns[name] != columns[name] else columns[name]
        return Assessed(
            reference=self.columns["case"][row],
            at=self.at,
            model=loaded.name,
            version=loaded.version,
            sha256=loaded.sha256,
            rule=loaded.rule,
            machine=origin.machine,
            external_id=origin.external_id,
            input=self.inputs[row],
            **columns | {"notes": self._notes[row]},
        )

    def entry(self, records: Sequence[dict[str, Any]]) -> dict[str, Any]:
        """The audit entry of some of the verdicts."""
        loaded = self.loaded
        return {
            "model": loaded.name,
            "version": loaded.version,
            "sha256": loaded.sha256,
            "rule": loaded.rule,
            "records": records,
        }


def chosen_for_control(input_hash: str, share: float) -> bool:
    """Whether an example is kept whatever its verdict; the hash of its input decides."""
    return int(input_hash[:8], 16) < share * 2**32
