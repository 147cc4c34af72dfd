"""HTTP: the process, its connections, the gate, request bodies, answers, errors, logs and metrics."""
