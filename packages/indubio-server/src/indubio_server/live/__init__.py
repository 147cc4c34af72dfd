"""`indubio live`: values of machines in by MQTT, verdicts and alarms out.

live_settings      what the TOML file says
subscription       the broker: messages in, acknowledged when they are durable; verdicts and alarms out
journal            what was received, on disk before the broker hears that we have it
messages           a message -> machine, time and values of sensors; bad ones are counted
machine_stream     the values of one machine put in order and cut into windows
snapshots          the state of all machines on disk, so that the journal can be short
live_verdicts      windows scored together and written exactly once
delivery           the outbox emptied: webhook and MQTT
live_engine        all of it in order
live_metrics       numbers for Prometheus, and whether all is well
"""

from indubio_server.live.live_process import run_live
from indubio_server.live.settings_of_live import live_settings

__all__ = ["live_settings", "run_live"]
