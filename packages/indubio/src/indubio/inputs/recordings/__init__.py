"""Recordings as windows: files or tables, wide or long, whole or streamed.

source -> pieces (rows of one group) -> samples (gaps filled, or resampled) -> windows (N, L, K)
"""

from indubio.inputs.recordings.layouts import LAYOUTS, Long, Wide
from indubio.inputs.recordings.window_stream import array_windows, read_windows, stream_windows

__all__ = ["LAYOUTS", "Long", "Wide", "array_windows", "read_windows", "stream_windows"]
