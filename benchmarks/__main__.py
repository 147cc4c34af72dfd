"""Speed, as ratios within one run: python -m benchmarks [--quick] [--write]"""

import argparse
import os
import sys
import time

import torch
from rich.console import Console

from benchmarks import growth, memory, report, scoring, training


def main() -> None:
    options = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    options.add_argument("--quick", action="store_true", help="fewer works and repeats: a minute or two")
    options.add_argument("--write", action="store_true", help="write docs/benchmarks.md and its figure")
    chosen = options.parse_args()
    if chosen.quick and chosen.write:
        options.error("--write needs the whole run: leave out --quick.")
    torch.set_num_threads(1)
    repeats = 3 if chosen.quick else 5
    # Without a terminal rich assumes 80 columns, which cuts the tables.
    console = Console(width=None if sys.stdout.isatty() else 150)
    start, before = time.perf_counter(), os.getloadavg()[0]
    sections: list[report.Section] = []

    def show(section: report.Section) -> None:
        section.printed(console)
        sections.append(section)

    show(training.steps(repeats, quick=chosen.quick))
    show(scoring.scoring(repeats))
    show(scoring.few_rows(repeats))
    show(training.against_pyod(1 if chosen.quick else 3, epochs=3 if chosen.quick else 10))
    if not chosen.quick:
        show(training.whole_fits(3))
        show(training.posteriors(3))
        show(scoring.after_the_network(3))
        grown = growth.growth(3)
        show(growth.growth_section(grown))
        show(memory.memory())
    after = os.getloadavg()[0]
    minutes = (time.perf_counter() - start) / 60
    console.print(f"{minutes:.1f} minutes; load average {before:.1f} before, {after:.1f} after")
    if chosen.write:
        report.write(sections, grown, (before, after))


main()
