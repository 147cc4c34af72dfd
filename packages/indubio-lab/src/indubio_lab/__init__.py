"""What research needs beside the product: the paper and its reproduction, public collections, the benchmark.

posteriors      those that the paper only names, or that did not pay: `--posterior swag` finds them
collections     public data, with checksums
grids           many cells over workers: kept one by one, gone on with after a stop
benchmark       detectors compared on many sets, with ranks and tests
tuning          settings by search
paper           the paper's presets and results
cli             the commands benchmark, datasets, reproduce and tune
"""

__version__ = "0.2.0"
