"""Rate limits, as token buckets."""

import time

MOST_BUCKETS = 10_000


class Buckets:
    """Rate limits by name, as token buckets.

    Args:
        rate: tokens per second.
        burst: tokens that a bucket holds.
    """

    def __init__(self, rate: float, burst: float) -> None:
        self._rate, self._burst = rate, max(1.0, burst)
        self._buckets: dict[str, tuple[float, float]] = {}

    def wait(self, name: str) -> float:
        """Seconds until the name has a token; 0 where it has one, which is used up."""
        at = time.monotonic()
        tokens, last = self._buckets.pop(name, (self._burst, at))
        tokens = min(self._burst, tokens + (at - last) * self._rate)
        enough = tokens >= 1
        self._buckets[name] = (tokens - enough, at)
        if len(self._buckets) > MOST_BUCKETS:
            del self._buckets[next(iter(self._buckets))]
        return 0.0 if enough else (1 - tokens) / self._rate
