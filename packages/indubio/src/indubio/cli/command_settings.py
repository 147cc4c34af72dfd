"""What commands that take a model can be told by `--set`; `indubio.configuration` has what `fit` can."""

from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field

from indubio.chain import SPREAD
from indubio.io import UNSAID, FileFormat
from indubio.settings import AtLeastOne, NotNegative, Settings, Share
from indubio.workers import Workers


@dataclass(frozen=True, kw_only=True)
class FileSettings(Settings):
    """What `indubio evaluate` and `indubio report` are told.

    Args:
        file: how the files are written, where it is not found out.
    """

    file: FileFormat = UNSAID


@dataclass(frozen=True, kw_only=True)
class LearnSettings(FileSettings):
    """What `indubio learn` is told.

    Args:
        spread: how far labels may move the log-odds, as a standard deviation, before any is seen.
        hold_out: a third of the labels, chosen by a digest of each example, teaches nothing, and both models are
            compared on these; false teaches all and compares nothing.
    """

    spread: NotNegative = SPREAD
    hold_out: bool = True


@dataclass(frozen=True, kw_only=True)
class WorkSettings(Settings):
    """What `indubio benchmark` and `indubio reproduce` are told.

    Args:
        workers: processes of this machine, or a cluster; not set, one process for each core.
    """

    workers: Workers | None = None


@dataclass(frozen=True, kw_only=True)
class AssessSettings(FileSettings):
    """What `indubio assess` is told.

    Args:
        workers: processes or a cluster that assess shard by shard; `--out` is a folder then. Not set, all is assessed
            here, in order.
        shard_rows: with workers, rows of a Parquet file that are one piece of work.
        drift_alpha: largest probability of ever raising a false alarm of drift.
        run_share: share of a run's windows that must be anomalous for the run to be.
        points_by: what the score of a time step is made of: "score", the mean of the windows' scores, or
            "contribution", what the time step adds to each.
    """

    workers: Workers | None = None
    shard_rows: AtLeastOne | None = None
    drift_alpha: Annotated[float, Field(ge=1e-9, le=0.5)] = 0.01
    run_share: Share = 0.5
    points_by: Literal["score", "contribution"] = "score"
