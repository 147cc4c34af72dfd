"""Where independent pieces of work run: processes here, or a Dask cluster, both as a `concurrent.futures` executor.

A worker uses one core, so that workers do not get in each other's way. What it needs for many tasks, such as a model,
is given to it once: `Workers.executor(start=...)`.
"""

from indubio.workers.processes import cores
from indubio.workers.workers import Workers, ended_its_workers

__all__ = ["Workers", "cores", "ended_its_workers"]
