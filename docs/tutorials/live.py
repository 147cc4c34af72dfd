# %% [markdown]
# # Machines that run: MQTT in, alarms out
#
# `indubio live` listens to a broker, cuts what machines send into windows as the model was trained, judges them, and tells verdicts and alarms to topics, to a
# webhook and to the server's store. What it has acknowledged survives a kill, and no alarm comes twice.
#
# This page starts a real broker (Mosquitto) and a real `indubio live`. The signals are generated.
#
# To run it yourself: `pip install --constraint constraints.txt ".[live]"`.

# %%
import json
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
from paho.mqtt.client import CallbackAPIVersion, Client, MQTTProtocolVersion

folder, random = Path(tempfile.mkdtemp()), np.random.default_rng(0)
RATE = 10  # samples per second


def values(count: int, off: float = 0.0) -> np.ndarray:
    """Pressure and flow of a press; `off` is what a fault adds to the pressure."""
    step = np.arange(count)
    rhythm = np.sin(2 * np.pi * step / 20)
    noise = 0.05 * random.normal(size=(count, 2))
    return np.column_stack([5 + rhythm + off, 3 - 0.5 * rhythm]) + noise


# %% [markdown]
# ## A model of a healthy recording
# Windows of two seconds. The folder remembers how they are cut.

# %%
healthy = values(3000)
stamps = pa.array(np.datetime64("2026-03-01", "us") + (np.arange(3000) * 100_000).astype("timedelta64[us]"))
recording = pa.table({"time": stamps, "pressure": healthy[:, 0], "flow": healthy[:, 1]})
pyarrow.csv.write_csv(recording, folder / "healthy.csv")

indubio = Path(sys.executable).with_name("indubio")
fit = [indubio, "fit", "healthy.csv", "--window", "20", "--time", "time", "--false-alarms", "0.02", "--out", "press"]
print(subprocess.run(fit, cwd=folder, capture_output=True, text=True, check=True).stdout)

# %% [markdown]
# ## A broker, and what its messages mean

# %%
with socket.create_server(("127.0.0.1", 0)) as free:
    port = free.getsockname()[1]
(folder / "mosquitto.conf").write_text(f"listener {port} 127.0.0.1\nallow_anonymous true\n")
broker = subprocess.Popen(
    [shutil.which("mosquitto") or "/usr/sbin/mosquitto", "-c", folder / "mosquitto.conf"], stderr=subprocess.DEVNULL
)

(folder / "live.toml").write_text(f"""
[broker]
host = "127.0.0.1"
port = {port}

[[topics]]
topic = "plant/{{machine}}"
values = "v"
time = "t"
time_unit = "s"

[publish]
verdicts = "judged/{{machine}}"
alarms = "alarms/{{machine}}"
""")
time.sleep(0.5)
log = (folder / "log").open("w")
with socket.create_server(("127.0.0.1", 0)) as free:
    health = f"127.0.0.1:{free.getsockname()[1]}"
command = [indubio, "live", "--config", "live.toml", "--model", "press", "--state", "state", "--metrics", health]
live = subprocess.Popen(command, cwd=folder, stderr=log)
for _ in range(300):
    try:
        with urllib.request.urlopen(f"http://{health}/health") as answer:
            if answer.status == 200:
                break
    except OSError:
        time.sleep(0.1)

# %% [markdown]
# ## Somebody listens, and a press sends
# Ten seconds of healthy values, then ten with a pressure that is 3 bar too high.

# %%
heard: list[tuple[str, dict]] = []
client = Client(CallbackAPIVersion.VERSION2, protocol=MQTTProtocolVersion.MQTTv5)
client.on_message = lambda _, __, message: heard.append((message.topic, json.loads(message.payload)))
client.connect("127.0.0.1", port)
client.subscribe([("judged/#", 1), ("alarms/#", 1)])
client.loop_start()

sent = np.concatenate([values(100), values(100, off=3.0)])
began = time.time() - len(sent) / RATE
for place, (pressure, flow) in enumerate(sent.tolist()):
    message = {"t": began + place / RATE, "v": {"pressure": pressure, "flow": flow}}
    client.publish("plant/press-3", json.dumps(message), qos=1).wait_for_publish()

for _ in range(100):
    if sum(topic.startswith("judged") for topic, _ in heard) >= 9:
        break
    time.sleep(0.1)

# %%
for topic, said in heard:
    print(topic, {name: said[name] for name in ("verdict", "probability", "alarm") if name in said})

# %% [markdown]
# The alarm rings once, when three of the last five windows are anomalies, and is not repeated with every further window. With the same `--state`,
# `indubio serve` shows the cases and alarms on its pages. Five minutes with a terminal, the settings, and what is promised: [live data](../live.md).

# %%
client.loop_stop()
client.disconnect()
live.terminate()
live.wait()
broker.terminate()
broker.wait()
log.close()
verify = [indubio, "audit", "verify", "--state", folder / "state"]
print(subprocess.run(verify, capture_output=True, text=True).stdout)
