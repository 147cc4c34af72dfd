"""Our detectors in other people's programs: `compat.pyod.as_pyod`."""

__all__ = []
