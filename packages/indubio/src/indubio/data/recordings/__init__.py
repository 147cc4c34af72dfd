"""Recordings as windows: files or tables, wide or long, whole or streamed.

source -> pieces (rows of one group) -> samples (gaps filled, or resampled) -> windows (N, L, K)
"""

from indubio.data.recordings.layouts import LAYOUTS, Long, Wide
from indubio.data.recordings.window_stream import array_windows, read_windows, stream_windows

__all__ = ["LAYOUTS", "Long", "Wide", "array_windows", "read_windows", "stream_windows"]
