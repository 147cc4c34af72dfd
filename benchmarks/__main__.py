"""Speed, as ratios within one run: python -m benchmarks [--quick] [--write]"""

import argparse
import os
import sys
import time

import torch
from rich.console import Console

from benchmarks import growth, instructions, memory, report, scoring, steps, targets, training
from benchmarks.processor import processor


def main() -> None:
    options = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    options.add_argument("--quick", action="store_true", help="fewer works and repeats: two or three minutes")
    options.add_argument("--write", action="store_true", help="write docs/benchmarks.md and its figure")
    chosen = options.parse_args()
    if chosen.quick and chosen.write:
        options.error("--write needs the whole run: leave out --quick.")
    torch.set_num_threads(1)
    repeats = 3 if chosen.quick else 5
    # Without a terminal rich assumes 80 columns, which cuts the tables.
    console = Console(width=None if sys.stdout.isatty() else 170)
    start, before = time.perf_counter(), os.getloadavg()[0]
    sections: list[report.Section] = []

    def show(section: report.Section) -> None:
        section.printed(console)
        sections.append(section)

    console.print(processor(), highlight=False)
    found = instructions.measured(quick=chosen.quick)
    full = instructions.vectors(found)
    show(steps.steps_section({name: one.steps for name, one in found.items()}))
    show(
        steps.products_section(
            {name: one.flops for name, one in full.items()}, {name: one.bandwidth for name, one in full.items()}
        )
    )
    show(scoring.scoring_section({name: one.scoring for name, one in full.items()}))
    show(steps.posterior_steps_section({name: one.posteriors for name, one in full.items()}))
    show(scoring.few_rows(repeats))
    epochs = 3 if chosen.quick else 10
    pyod = training.against_pyod(1 if chosen.quick else 3, epochs)
    show(training.pyod_section(pyod, epochs))
    if not chosen.quick:
        show(training.whole_fits(3))
        show(training.posteriors(3))
        show(scoring.after_the_network(3))
        grown = growth.growth(3)
        show(growth.growth_section(grown))
        show(memory.memory())
    show(targets.targets_section(found, pyod))
    sections.insert(0, sections.pop())  # printed last, read first
    after = os.getloadavg()[0]
    minutes = (time.perf_counter() - start) / 60
    console.print(f"{minutes:.1f} minutes; load average {before:.1f} before, {after:.1f} after")
    if chosen.write:
        report.write(sections, grown, (before, after))


main()
