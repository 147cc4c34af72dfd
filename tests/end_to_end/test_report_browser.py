"""The report in a real browser."""

import json
import re
import shutil
import subprocess
from html import unescape

import numpy as np
import pytest

from indubio import AnchoredEnsemble, Detector, Training
from indubio.report import html_report

BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
QUIET = ("--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking")


@pytest.mark.skipif(BROWSER is None, reason="no Chromium here: apt-get install chromium")
@pytest.mark.parametrize("width", [390, 820, 1200])
def test_the_page_never_scrolls_sideways(tmp_path, width):
    rng = np.random.default_rng(0)
    good = rng.normal(size=(120, 6))
    detector = Detector(posterior=AnchoredEnsemble(members=2), training=Training(epochs=5)).fit(good)
    rows = np.concatenate([good[:40], good[:20] * 4])
    (tmp_path / "report.html").write_text(html_report(detector, rows, labels=np.repeat([0, 1], [40, 20])))
    # The page has no script of its own: another one holds it in a frame of that width and measures it.
    (tmp_path / "frame.html").write_text(
        f'<iframe id="f" src="report.html" style="width:{width}px;height:800px;border:0"></iframe><pre id="out"></pre>'
        "<script>const f = document.getElementById('f'); f.onload = () => {"
        "const d = f.contentDocument.documentElement;"
        "const sizes = JSON.stringify([d.scrollWidth, d.clientWidth, d.scrollHeight]);"
        "document.getElementById('out').textContent = sizes; };"
        "</script>"
    )
    options = ("--allow-file-access-from-files", "--virtual-time-budget=5000", f"--user-data-dir={tmp_path}/profile")
    done = subprocess.run(
        [BROWSER, *QUIET, *options, "--dump-dom", f"file://{tmp_path}/frame.html"],
        capture_output=True,
        text=True,
        timeout=120,
    )
    measured = re.search(r'<pre id="out">(.*?)</pre>', done.stdout)
    assert measured, done.stderr[-500:]
    scroll, client, height = json.loads(unescape(measured[1]))
    assert scroll <= client
    assert height > 1000
