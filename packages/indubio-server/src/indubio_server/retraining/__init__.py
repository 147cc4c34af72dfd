"""New versions of a model from what people said: jobs, and what they make."""

from indubio_server.retraining.background_jobs import Jobs

__all__ = ["Jobs"]
