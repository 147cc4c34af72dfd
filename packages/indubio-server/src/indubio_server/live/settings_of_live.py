"""Settings of `indubio live`, as its TOML file has them."""

import os
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from indubio.configuration import from_plain
from indubio.errors import ConfigError
from indubio.settings import AtLeastOne, NotNegative, Positive, Settings, Share
from indubio_server.outside_names import unseen
from indubio_server.server_settings import AlarmRule

Port = Annotated[int, Field(ge=0, le=65535)]
Quality = Annotated[tuple[str | int, ...], Field(min_length=1)]
TimeUnit = Literal["iso", "s", "ms", "us", "ns"]
MACHINE, SENSOR = "machine", "sensor"
_PLACEHOLDER = re.compile(r"^\{([a-z_]+)\}$")


@dataclass(frozen=True, kw_only=True)
class Broker(Settings):
    """The MQTT broker, protocol 5.

    Args:
        host: its name or address. port: 1883, or 8883 with TLS.
        client_id: names the session that the broker keeps for us; every `indubio live` needs its own.
        user: name to log in with. password_env: the environment variable with the password. password_file: or a file.
        tls: encrypt; true where `ca` is given. ca: certificates to trust, in PEM; None trusts the system's.
        certificate: our own, where the broker asks for one. private_key: its key.
        keepalive: seconds between signs of life.
        in_flight: messages that may be on their way to us without being acknowledged: what bounds the memory.
        session_days: how long the broker keeps our session, and what came meanwhile, while we are gone.
        longest_wait: seconds between two attempts to connect, at most; they begin with one.
    """

    host: str = "localhost"
    port: Port = 1883
    client_id: str = "indubio-live"
    user: str | None = None
    password_env: str = "INDUBIO_MQTT_PASSWORD"
    password_file: str | None = None
    tls: bool = False
    ca: str | None = None
    certificate: str | None = None
    private_key: str | None = None
    keepalive: AtLeastOne = 30
    in_flight: Annotated[int, Field(ge=1, le=65535)] = 4000
    session_days: Annotated[float, Field(ge=0, le=3650)] = 7.0
    longest_wait: AtLeastOne = 30

    def password(self) -> str | None:
        """The password from the file or the environment; None where there is none."""
        return secret(self.password_file, self.password_env)


@dataclass(frozen=True, kw_only=True)
class TopicMap(Settings):
    """What the messages of some topics are.

    A message is JSON: a bare number, where the topic names the sensor; a table; or a list of tables. A path says where
    in the table something is: "time", or "head.time" for a table in the table.

    Args:
        topic: levels with placeholders, as "plant/{machine}/{sensor}". {machine} and {sensor} are what they say, any
            other placeholder, such as {site}, stands for one level that is not looked at.
        samples: path to a list of tables, each a sample; what is not in one is looked for around it.
        values: path to a table with a value per sensor, "" for the message itself; not where the sensor is named.
        machine: path to the machine's name, where the topic has none.
        sensor: path to the sensor's name, where the topic has none and there is one value at a time.
        value: path to the value, where the sensor is named by the topic or by `sensor`.
        time: path to the time stamp; None takes the time of arrival.
        time_unit: "iso" for ISO 8601 (UTC where it has no zone), or a number of s, ms, us or ns since 1970.
        quality: path to the quality: one for all values, or a table with one per sensor. Bad values count as missing.
        good: the qualities that are good; text in any case.
        group: path to the id of the part, cycle or run; no window crosses from one to the next.
    """

    topic: str
    samples: str | None = None
    values: str = ""
    machine: str | None = None
    sensor: str | None = None
    value: str = "value"
    time: str | None = None
    time_unit: TimeUnit = "iso"
    quality: str | None = None
    good: Quality = ("good", 192)
    group: str | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        named = self.placeholders
        if not self.topic or any("{" in level and not _PLACEHOLDER.match(level) for level in self.topic.split("/")):
            raise ConfigError(
                f'`topic` must be levels and whole-level placeholders, as "plant/{{machine}}", got {self.topic!r}.'
            )
        if set(self.topic) & set("+#"):
            raise ConfigError(
                f"`topic` takes placeholders such as {{machine}} in place of + and #, got {self.topic!r}."
            )
        if len(set(named)) != len(named):
            raise ConfigError(f"`topic` names a placeholder twice: {self.topic!r}.")
        if (MACHINE in named) == (self.machine is not None):
            raise ConfigError(f"the machine is named by {{machine}} in the topic or by `machine`: {self.topic!r}.")
        if SENSOR in named and self.sensor is not None:
            raise ConfigError(
                f"the sensor is named by {{sensor}} in the topic or by `sensor`, not both: {self.topic!r}."
            )

    @property
    def placeholders(self) -> list[str]:
        """The names of the placeholders, in order."""
        return [found[1] for level in self.topic.split("/") if (found := _PLACEHOLDER.match(level))]

    @property
    def filter(self) -> str:
        """The topic as the broker is asked for it."""
        return "/".join("+" if "{" in level else level for level in self.topic.split("/"))

    @property
    def pattern(self) -> re.Pattern[str]:
        """Matches a topic, with the placeholders as groups."""
        levels = [f"(?P<{f[1]}>[^/]+)" if (f := _PLACEHOLDER.match(x)) else re.escape(x) for x in self.topic.split("/")]
        return re.compile("/".join(levels))


@dataclass(frozen=True, kw_only=True)
class Ordering(Settings):
    """Which messages are taken, and how they are put in order.

    Args:
        lateness: seconds of a machine's own time that a value may come after a newer one. Everything waits so long.
        ahead: seconds that a time stamp may be after the arrival. behind: or before it.
        skewed: what becomes of a stamp beyond them: "refuse" the value, or "arrival" takes the time of arrival.
        restart_after: seconds without a value after which a machine's windows begin anew, as at the start of a file.
        largest_message: bytes.
        most_machines: at once: who invents names must not fill the memory. For one more, that which was silent the
            longest is forgotten, if it was so for `restart_after`; else the new one is refused.
    """

    lateness: NotNegative = 0.5
    ahead: Positive = 60.0
    behind: Positive = 7 * 86400.0
    skewed: Literal["refuse", "arrival"] = "refuse"
    restart_after: Positive = 600.0
    largest_message: AtLeastOne = 256 * 1024
    most_machines: AtLeastOne = 10_000


@dataclass(frozen=True, kw_only=True)
class OutTopics(Settings):
    """Where verdicts and alarms are published; "" publishes nothing. {machine} and {model} are put in.

    Args:
        verdicts: topic of every verdict. alarms: topic of the alarm state, retained.
        top: so many features that contributed most are named with an anomaly or referral.
    """

    verdicts: str = ""
    alarms: str = ""
    top: Annotated[int, Field(ge=0, le=100)] = 3


@dataclass(frozen=True, kw_only=True)
class Webhook(Settings):
    """Where alarms are posted to.

    Args:
        url: http:// or https://.
        secret_env: the environment variable with the secret that signs them. secret_file: or a file.
        verdicts: verdicts that are posted beside the alarms, as ["ANOMALY", "REFER"].
        timeout: seconds for an attempt, from looking up the address to the status of the answer.
        attempts: after so many an event is put aside as dead.
        longest_wait: seconds between two attempts, at most; they begin with one second.
    """

    url: Annotated[str, Field(pattern=r"^https?://[^/]+")]
    secret_env: str = "INDUBIO_WEBHOOK_SECRET"
    secret_file: str | None = None
    verdicts: tuple[Literal["INLIER", "ANOMALY", "REFER"], ...] = ()
    timeout: Positive = 10.0
    attempts: AtLeastOne = 20
    longest_wait: Positive = 300.0

    def secret(self) -> bytes:
        """The secret that signs the events, from its file or from the environment."""
        found = secret(self.secret_file, self.secret_env)
        if not found:
            raise ConfigError(f"the webhook needs a secret: set {self.secret_env}, or name a file by `secret_file`.")
        return found.encode()


@dataclass(frozen=True, kw_only=True)
class LiveSettings(Settings):
    """All of the TOML file.

    Args:
        broker: where messages come from. topics: which, and what they are.
        ordering: which are taken, and how they are put in order.
        alarm: when a machine's alarm begins and ends.
        publish: topics for verdicts and alarms. webhook: where events are posted to.
        control_share: share of the verdicts other than REFER that is kept for people too.
        referrals_per_hour: referrals beyond so many in an hour are marked as overflow.
        snapshot_every: seconds; what came since is read again from the journal after a crash.
    """

    broker: Broker = Broker()
    topics: Annotated[tuple[TopicMap, ...], Field(min_length=1)]
    ordering: Ordering = Ordering()
    alarm: AlarmRule = field(default_factory=AlarmRule)
    publish: OutTopics = OutTopics()
    webhook: Webhook | None = None
    control_share: Share = 0.0
    referrals_per_hour: AtLeastOne | None = None
    snapshot_every: Positive = 15.0

    def __post_init__(self) -> None:
        super().__post_init__()
        for out in (self.publish.verdicts, self.publish.alarms):
            topic = out.replace("{machine}", "m").replace("{model}", "m")
            if set(topic) & set("{}+#") or unseen(topic):
                raise ConfigError(
                    f"a topic to publish at has no placeholders but {{machine}} and {{model}}, got {out!r}."
                )
            if out.startswith(("{", "$")):
                raise ConfigError(
                    "a topic to publish at begins with a name of its own, so that no machine's name is that: "
                    f'take "indubio/{out}" in place of {out!r}.'
                )
            if out and any(one.pattern.fullmatch(topic) for one in self.topics):
                raise ConfigError(f"{out!r} is also a topic that is read: what is published would come back.")


def live_settings(plain: dict[str, Any]) -> LiveSettings:
    """The settings that a TOML file describes."""
    return from_plain(LiveSettings, plain)


def secret(file: str | None, variable: str) -> str | None:
    """A secret from a file, without the line's end, or from an environment variable; None where there is none."""
    if file is None:
        return os.environ.get(variable)
    try:
        return Path(file).read_text().rstrip("\r\n")
    except OSError as error:
        raise ConfigError(f"{file}: cannot be read ({error.strerror}).") from None
