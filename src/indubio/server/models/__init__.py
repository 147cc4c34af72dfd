"""The models that are served: their versions, batches of requests, what is recorded, drift and alarms."""
