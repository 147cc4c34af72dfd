# %% [markdown]
# # From verdicts to reviews, and back into the model
#
# A server scores parts, keeps what it is unsure of for people, and learns from what they say. This page plays all roles: the machine that sends parts, the
# person who reviews, and the one who makes a better version. It uses the real server and the forms of its pages; in a plant people use the
# pages themselves, at `http://HOST:8080/review`.
#
# The parts are generated: six measurements that move together; in bad ones a single measurement is off.
#
# To run it yourself: `pip install --constraint constraints.txt ".[server]" httpx`.

# %%
import csv
import io
import re
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import httpx
import numpy as np

random = np.random.default_rng(0)
NAMES = ("temperature", "pressure", "flow", "speed", "torque", "vibration")


def parts(count: int, bad: float = 0.0) -> tuple[np.ndarray, np.ndarray]:
    """Measurements of some parts, and whether each is bad."""
    usual, together = [70, 12, 4.5, 100, 30, 0.8], np.array([2, 1, 0.4, 5, 3, 0.1])
    rows = usual + random.normal(size=(count, 1)) * together + random.normal(size=(count, 6)) * together * 0.4
    is_bad = random.random(count) < bad
    which = random.integers(0, 6, count)
    rows[is_bad, which[is_bad]] += (random.choice([-1, 1], count) * random.uniform(1.5, 6, count) * together[which])[
        is_bad
    ]
    return rows, is_bad


# %% [markdown]
# ## A model, and a server
# `--control-share` keeps some of the other verdicts for people too, chosen by chance: without them nobody would know how often the accepted verdicts are wrong.

# %%
from indubio import Detector, save
from indubio.data import read_table

import pyarrow as pa

folder = Path(tempfile.mkdtemp())
training, _ = parts(300)
save(Detector().fit(read_table(pa.table(dict(zip(NAMES, training.T, strict=True))))), folder / "press")

command = [Path(sys.executable).with_name("indubio"), "serve", "--model", f"press={folder / 'press'}"]
with socket.create_server(("127.0.0.1", 0)) as free:
    port = str(free.getsockname()[1])
log = (folder / "log").open("w")
options = ["--open", "--control-share", "0.3"]  # open: this machine needs no key
server = subprocess.Popen([*command, "--state", folder / "state", "--port", port, *options], stderr=log)
web = httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=60)
for _ in range(200):
    try:
        if web.get("/v2/health/ready").status_code == 200:
            break
    except httpx.TransportError:
        time.sleep(0.1)

# %% [markdown]
# ## Parts come in

# %%
rows, is_bad = parts(600, bad=0.15)
truth = {f"part {place}": bool(bad) for place, bad in enumerate(is_bad)}
sent = {"rows": [dict(zip(NAMES, row, strict=True)) for row in rows.tolist()], "ids": list(truth), "machine": "press-1"}
answer = web.post("/assess", json=sent).json()
verdicts = [one["verdict"] for one in answer["results"]]
{verdict: verdicts.count(verdict) for verdict in ("INLIER", "ANOMALY", "REFER")}

# %% [markdown]
# One of those that were referred, as the machine gets it back:

# %%
next(one for one in answer["results"] if one["verdict"] == "REFER")

# %% [markdown]
# ## A person looks
# Here the person knows the truth. Labels come in by a file, as from a spreadsheet; on the pages it is one key for each case.

# %%
waiting = list(csv.DictReader(io.StringIO(web.get("/review/exchange/reviews.csv").text)))
labels = io.StringIO()
writer = csv.writer(labels)
writer.writerow(["reference", "label"])
for case in waiting:
    writer.writerow([case["reference"], "anomaly" if truth[case["external_id"]] else "inlier"])


def token(page: str) -> str:
    """What a form must carry, so that no other site can send it."""
    return re.search(r'name="token" value="([^"]+)"', web.get(page).text)[1]


done = web.post(
    "/review/exchange/labels",
    data={"token": token("/review/exchange")},
    files={"labels": ("labels.csv", labels.getvalue())},
)
len(waiting), done.status_code

# %% [markdown]
# ## A better version
# *Learning from labels* corrects the probabilities by what people said; nothing is trained again. The new version is compared with the present one on cases
# that taught neither, and waits for somebody to activate it.

# %%
web.post("/review/models/press/learn", data={"token": token("/review/models")})
for _ in range(200):
    versions = web.get("/models/press").json()["versions"]
    if len(versions) > 1:
        break
    time.sleep(0.1)
versions[-1]["evaluation"]

# %%
web.post("/models/press/activate", json={"version": 2}).json()

# %% [markdown]
# ## Was it worth it?
# New parts, scored by both versions:

# %%
rows, is_bad = parts(2000, bad=0.15)
body = {"rows": [dict(zip(NAMES, row, strict=True)) for row in rows.tolist()], "top": 0}
for version in (1, 2):
    found = web.post(f"/models/press/versions/{version}/assess", json=body).json()["results"]
    called = np.array([one["prediction"] for one in found])
    missed, false = (is_bad & ~called).sum() / is_bad.sum(), (~is_bad & called).sum() / (~is_bad).sum()
    print(f"version {version}: {missed:.1%} of the bad parts missed, {false:.1%} of the good ones called bad")

# %% [markdown]
# ## Who did what
# Everything is in the audit trail, and the trail can be verified:

# %%
web.close()
server.terminate()
server.wait()
log.close()
verify = [Path(sys.executable).with_name("indubio"), "audit", "verify", "--state", folder / "state"]
print(subprocess.run(verify, capture_output=True, text=True).stdout)
