"""Batches: many files, assessed shard by shard, here or on a cluster.

files -> shards (ranges of rows, or groups of windows) -> workers -> one file of results per shard, and a manifest
                                                                      -> OneFile joins them, where that is wanted

A shard's file of results appears whole or not at all, under a name made of the input's name, its range and the model's
hash. So a run may be killed at any moment and run again, and what comes out never depends on the workers.
"""

from indubio.batch.batch_progress import BatchAdvance, WorkerState
from indubio.batch.one_file import OneFile
from indubio.batch.run import Batch, BatchOutcome, run_batch

__all__ = ["Batch", "BatchAdvance", "BatchOutcome", "OneFile", "WorkerState", "run_batch"]
