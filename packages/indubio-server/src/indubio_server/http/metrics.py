"""The metrics that Prometheus reads at /metrics."""

import time
from collections import Counter as Counts
from collections.abc import Mapping, Sequence
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from indubio_server.plant import PlantFile

LATENCIES = (0.001, 0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)
SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)
MEMORY = 0.999  # of the running means: about the last thousand verdicts


class Metrics:
    """All metrics of one server, in a registry of its own.

    Args:
        plant: its lines are labels, never its machines: anybody who may score can invent those.
    """

    def __init__(self, plant: PlantFile | None = None) -> None:
        self._plant = plant or PlantFile()
        self.registry = CollectorRegistry()
        own = self.registry
        self.requests = Counter("indubio_requests", "Requests.", ["route", "status"], registry=own)
        self.latency = Histogram(
            "indubio_request_seconds", "Time to answer.", ["route"], buckets=LATENCIES, registry=own
        )
        self.batches = Histogram("indubio_batch_rows", "Rows scored at once.", ["model"], buckets=SIZES, registry=own)
        self.verdicts = Counter("indubio_verdicts", "Verdicts.", ["model", "verdict", "reason"], registry=own)
        self.line_verdicts = Counter(
            "indubio_line_verdicts",
            "Verdicts by line; site and line are empty for machines of none.",
            ["site", "line", "verdict"],
            registry=own,
        )
        self.line_waiting = Gauge("indubio_line_cases_waiting", "Cases that wait.", ["site", "line"], registry=own)
        self.line_referred = Gauge(
            "indubio_line_referrals_hour", "Referrals of the last hour.", ["site", "line"], registry=own
        )
        self.line_ringing = Gauge("indubio_line_alarms_ringing", "Machines that ring.", ["site", "line"], registry=own)
        self.overflow = Counter("indubio_referral_overflow", "Referrals beyond the budget of the hour.", registry=own)
        self.referral_share = Gauge(
            "indubio_referral_share", "Share of REFER, of about the last 1000.", ["model"], registry=own
        )
        self.mean_probability = Gauge(
            "indubio_probability_mean", "Mean anomaly probability, of about the last 1000.", ["model"], registry=own
        )
        self.mean_total = Gauge(
            "indubio_total_uncertainty_mean", "Mean total uncertainty, likewise.", ["model"], registry=own
        )
        self.waiting = Gauge("indubio_cases_waiting", "Cases that wait for a person.", registry=own)
        self.oldest = Gauge("indubio_oldest_case_seconds", "Age of the oldest waiting case.", registry=own)
        self.ringing = Gauge("indubio_alarms_ringing", "Machines whose alarm rings.", registry=own)
        self.database = Gauge("indubio_database_up", "1 when the database can be written.", registry=own)
        self.drift = Gauge(
            "indubio_drift",
            "alarm: 1 once the data has changed; evidence: relative to what an alarm needs; examples: seen.",
            ["model", "version", "statistic"],
            registry=own,
        )
        self.drift_skipped = Counter("indubio_drift_skipped", "Examples that drift was not tested on.", registry=own)
        self._means: dict[str, list[float]] = {}
        self._answered: dict[tuple[str, int], tuple[Counter, Histogram]] = {}

    def scored(self, model: str, columns: Mapping[str, Sequence[Any]], machines: Sequence[str]) -> None:
        """Count a batch that was scored."""
        plant = self._plant.plant
        if plant.lines:
            places = map(plant.labels_of, machines)
            for (place, verdict), count in Counts(zip(places, columns["verdict"], strict=True)).items():
                self.line_verdicts.labels(*place, verdict).inc(count)
        self.batches.labels(model).observe(len(columns["verdict"]))
        for (verdict, reason), count in Counts(zip(columns["verdict"], columns["reason"], strict=True)).items():
            self.verdicts.labels(model, verdict, reason).inc(count)
        smoothed = [verdict == "REFER" for verdict in columns["verdict"]], columns["probability"], columns["total"]
        latest = [sum(values) / len(values) for values in smoothed]
        old = MEMORY ** len(columns["verdict"])
        means = self._means.get(model) or latest
        self._means[model] = [old * mean + (1 - old) * new for mean, new in zip(means, latest, strict=True)]

    def answered(self, route: str, status: int, began: float) -> None:
        """Count a request that was answered; `began` is a time of `time.perf_counter`."""
        series = self._answered.get((route, status))
        if series is None:  # looking a series up by its labels costs more than counting in it
            series = self._answered[route, status] = self.requests.labels(route, status), self.latency.labels(route)
        series[0].inc()
        series[1].observe(time.perf_counter() - began)

    def count_lines(self, gauge: Gauge, counts: Mapping[str, int]) -> None:
        """Set a gauge by line, from counts by machine."""
        plant = self._plant.plant
        gauge.clear()  # a line may be gone
        if plant.lines:
            for place in [("", ""), *((one.site, one.line) for one in plant.lines)]:
                gauge.labels(*place).set(0)
            for machine, count in counts.items():
                gauge.labels(*plant.labels_of(machine)).inc(count)

    def rendered(self) -> bytes:
        """All metrics as text for Prometheus."""
        for model, means in list(self._means.items()):
            gauges = (self.referral_share, self.mean_probability, self.mean_total)
            for gauge, mean in zip(gauges, means, strict=True):
                gauge.labels(model).set(mean)
        return generate_latest(self.registry)
