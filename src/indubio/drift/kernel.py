"""The bets of a block, compiled by Numba; imported only where Numba is installed."""

from numba import njit


# No fastmath: the numbers are those of numpy, to the bit.
@njit(cache=True, nogil=True, error_model="numpy")
def bet(wealth, off, stakes, unit, weights, most, mixed):
    """Mean wealth over the stakes after every example, into `mixed`; `wealth` becomes that after the last."""
    for t in range(len(off)):
        mixed[t] = 0.0
        for stake in range(len(stakes)):
            for series in range(off.shape[1]):
                away = off[t, series]
                made = 1.0 if away != away else (1.0 + stakes[stake, series] * away) / unit[stake, series]
                now = (wealth[stake, series] + weights[t]) * made
                now = most if now > most else now
                wealth[stake, series] = now
                mixed[t, series] += now
        mixed[t] /= len(stakes)
