"""Resampling and windowing as plain loops over samples, to compare with."""

import math


def resampled(events, sensors, *, rate, gaps, longest):
    """Samples of one group, a list of lists.

    Args:
        events: (seconds, sensor, value) in order of time, value None where bad.
        sensors: how many.
        rate: samples per second.
        gaps: "leave", "hold" or "linear".
        longest: seconds.
    """
    firsts = [min(t for t, sensor, _ in events if sensor == k) for k in range(sensors)]
    start, end = max(firsts), max(t for t, _, _ in events)
    samples = []
    number = 0
    while start + number / rate <= end + 1e-9:
        now = start + number / rate
        samples.append([_value(events, k, now, end, gaps, longest) for k in range(sensors)])
        number += 1
    return samples


def _value(events, sensor, now, end, gaps, longest):
    good = [(t, v) for t, k, v in events if k == sensor and v is not None]
    before = [(t, v) for t, v in good if t <= now + 1e-9]
    after = [(t, v) for t, v in good if t > now + 1e-9]
    if not before:
        return math.nan
    then, value = before[-1]
    if gaps == "hold":
        return value if now - then <= longest + 1e-9 else math.nan
    if abs(now - then) <= 1e-9:
        return value
    if not after:
        return value if end - then <= longest + 1e-9 else math.nan
    later = min(t for t, _ in after)
    next_value = [v for t, v in after if t == later][-1]
    if later - then > longest + 1e-9:
        return math.nan
    if gaps == "leave":
        return value
    return value + (next_value - value) * (now - then) / (later - then)


def cut(samples, length, step):
    """Windows of one group, a list of lists of samples."""
    windows, start = [], 0
    while start + length <= len(samples):
        windows.append(samples[start : start + length])
        start += step
    return windows
