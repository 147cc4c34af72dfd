"""Where a verdict meets people: scoring over HTTP, the review queue and the audit trail.

request -> parsing -> batching -> a model's version -> store (case, audit entry) -> answer

Nothing here is imported by the rest of the package but the commands, and it needs the `server` extra.
"""
