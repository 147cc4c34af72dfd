"""Detectors compared."""
