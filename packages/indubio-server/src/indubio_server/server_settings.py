"""Settings of the server: limits, what is kept, what happens when the database fails."""

from dataclasses import dataclass
from typing import Literal

from indubio.errors import ConfigError
from indubio.settings import AtLeastOne, Fraction, NotNegativeInt, Positive, Settings, Share
from indubio_server.trusted_proxies import network

WhenDatabaseFails = Literal["refuse", "score"]
AnswerAfter = Literal["referrals", "all"]
PageLanguage = Literal["auto", "en", "de"]


@dataclass(frozen=True, kw_only=True)
class AlarmRule(Settings):
    """When a machine's alarm begins and ends: one bad window does not ring, and a ringing alarm does not flutter.

    Args:
        raise_at: the alarm begins when so many of the last verdicts count, k: anomalies, and what is unfamiliar.
        of: how many of the last verdicts are looked at, n.
        clear_at: it ends when at most so many of them count.
        unfamiliar: count what is referred as unlike anything in training too; False counts anomalies alone.
    """

    raise_at: AtLeastOne = 3
    of: AtLeastOne = 5
    clear_at: NotNegativeInt = 0
    unfamiliar: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.clear_at < self.raise_at <= self.of:
            raise ConfigError(
                f"an alarm needs `clear_at` < `raise_at` <= `of`, got {self.clear_at}, {self.raise_at} and {self.of}."
            )


@dataclass(frozen=True, kw_only=True)
class ServerSettings(Settings):
    """All settings but the models, the database and the address.

    Args:
        control_share: share of the verdicts other than REFER that are kept for people too, chosen by the input's hash.
            One in fifty: enough that labels can teach within days, little beside the referrals; 0 keeps none.
        referrals_per_hour: referrals beyond so many in an hour are kept, but marked as overflow; None sets no budget.
        alarm: when a machine's alarm begins and ends.
        drift_alpha: largest probability of ever raising a false alarm of drift, for each version of a model.
        answer_after: "referrals": an answer waits until what it says is kept is durable, and the audit entries of other
            verdicts follow within moments; "all": every answer waits for its audit entry.
        when_database_fails: "refuse" scoring until it is back, or "score" and say in the answer that nothing was kept.
        most_waiting: rows that may wait for the model; beyond them requests are refused with 503.
        most_rows: rows a request may have.
        largest_body: bytes a request may have.
        job_memory: bytes of memory that a job may have which makes a new version.
        job_minutes: how long such a job may take.
        open: answer this machine without a key while there is none, as the admin "local".
        rate: requests per second and key (or address, where no key is needed); None sets no limit.
        access_log: log every request, not only those that were refused or failed.
        most_connections: connections there may be at once; beyond them those that wait for their client give way, and
            where none does, only health checks are answered.
        connections_per_address: the same for one address (of IPv6, one /64). Trusted proxies may have any number; of
            each client behind them so many requests are answered at once.
        trusted_proxies: addresses and networks of proxies whose X-Forwarded-For and X-Forwarded-Proto are believed.
        anchor_file: a file outside of the state folder that heads of the audit trail are added to.
        anchor_url: an address that heads of the audit trail are sent to, as JSON.
        language: of the review pages, "auto" for what each browser likes best; everybody can choose another.
    """

    control_share: Share = 0.02
    referrals_per_hour: AtLeastOne | None = None
    alarm: AlarmRule = AlarmRule()
    drift_alpha: Fraction = 0.01
    answer_after: AnswerAfter = "referrals"
    when_database_fails: WhenDatabaseFails = "refuse"
    most_waiting: AtLeastOne = 4096
    most_rows: AtLeastOne = 4096
    largest_body: AtLeastOne = 16 * 2**20
    job_memory: AtLeastOne = 4 * 2**30
    job_minutes: Positive = 240.0
    open: bool = False
    rate: Positive | None = None
    access_log: bool = False
    most_connections: AtLeastOne = 2000
    connections_per_address: AtLeastOne = 256
    trusted_proxies: tuple[str, ...] = ()
    anchor_file: str | None = None
    anchor_url: str | None = None
    language: PageLanguage = "auto"

    def __post_init__(self) -> None:
        super().__post_init__()
        for one in self.trusted_proxies:
            network(one)
