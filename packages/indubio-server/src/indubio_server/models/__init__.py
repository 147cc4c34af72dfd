"""The served models: their versions, batches of requests, recorded verdicts, drift and alarms."""
