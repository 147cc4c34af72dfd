"""HTTP as such: the process, connections, the gate, errors as answers, logs and metrics."""
