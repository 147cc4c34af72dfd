"""Studies on public data, on the public API only; each is a module to run: `python -m experiments.NAME`."""
