"""One file of results in place of a folder of them: its shards lie in a folder beside it until it is whole."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from shutil import rmtree

import pyarrow.parquet as parquet

from indubio.batch.run import Batch, BatchOutcome
from indubio.io import Format, sink

SHARDS = ".shards"


@dataclass(frozen=True, kw_only=True)
class OneFile:
    """A file that the results of a batch are put into, in the order of the input.

    Args:
        target: path.
        format: of the file.
    """

    target: Path
    format: Format

    @property
    def shards(self) -> Path:
        """The folder that its shards lie in."""
        return self.target.with_name(f"{self.target.name}{SHARDS}")

    def assessed(self, batch: Batch, run: Callable[[Batch], BatchOutcome]) -> BatchOutcome:
        """Assess shard by shard, and join the results. The shards stay where some could not be assessed.

        Args:
            batch: what is to be assessed; its folder and format are chosen here.
            run: assesses it.
        """
        folder = self.shards
        found = run(replace(batch, out=str(folder), format="parquet"))
        with sink(self.target, self.format) as target:
            for name in found.results:
                with parquet.ParquetFile(folder / name) as shard:
                    for group in range(shard.num_row_groups):
                        target.write(shard.read_row_group(group))
        if not found.quarantined:
            rmtree(folder)
        return found
