"""The paper: its settings as presets, and the reproduction of its tables and figures.

Nothing else imports it but the command line and the experiments.
"""
