"""Commands of the lab: `indubio tune`, `benchmark`, `reproduce` and `datasets`."""
