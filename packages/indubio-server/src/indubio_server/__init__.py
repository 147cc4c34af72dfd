"""The server: scoring over HTTP, the review queue for uncertain cases, and the audit trail.

request -> http (connection, gate) -> api (examples) -> models (batch, verdicts, recorder) -> store -> answer

    service         the models, the store and the threads between them
    http            connections, keys and limits, bodies and answers, logs and metrics
    api             the routes for machines
    models          versions, batches, recorded verdicts, drift, alarms
    review          the pages for people
    retraining      new versions from people's labels
    store           the database and the audit trail
    mcp             models and queue for assistants, read-only

It stands on the library, which knows nothing of it: `indubio serve` and its other commands join by entry points.
"""

__version__ = "0.2.0"
