"""The report in a real browser."""

import json
import re
import shutil
import subprocess
from html import unescape
from pathlib import Path

import numpy as np
import pytest

from indubio import Detector
from indubio.report import html_report
from tests.small_examples import GOOD, LABELS, ROWS, SIGNALS, table, windows

BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
QUIET = ("--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking")
WIDTHS = (390, 820, 1200)  # a phone, a tablet, a desk
DARK = "--blink-settings=preferredColorScheme=0"

# The page has no script of its own: another one holds it in frames of these widths and measures them.
FRAMES = """<!DOCTYPE html>{frames}<pre id="out"></pre><script>
window.onload = () => {{
  const measured = [...document.querySelectorAll("iframe")].map(frame => {{
    const page = frame.contentDocument, body = frame.contentWindow.getComputedStyle(page.body);
    const widest = Math.max(...[...page.querySelectorAll("svg")].map(svg => svg.getBoundingClientRect().right));
    const root = page.documentElement;
    return [root.scrollWidth, root.clientWidth, root.scrollHeight, widest, body.color, body.backgroundColor];
  }});
  document.getElementById("out").textContent = JSON.stringify(measured);
}};
</script>"""
FRAME = '<iframe src="report.html" style="width:{width}px;height:800px;border:0"></iframe>'

pytestmark = pytest.mark.skipif(BROWSER is None, reason="no Chromium here: apt-get install chromium")


def long_names() -> str:
    """Names and ids that are long and cannot be broken at a space."""
    names = [f"{letter}_{'very_long_name_of_a_sensor_' * 3}{letter}" for letter in "abcd"]
    ids = {"serial_number_of_the_part": [f"{i:064d}" for i in range(80)], "note": ["word " * 30] * 80}
    data = table(ROWS * [1e-9, 1e9, -1e5, 1], names=names, ids=ids)
    detector = Detector().fit(table(GOOD * [1e-9, 1e9, -1e5, 1], names=names))
    return html_report(detector, data, labels=LABELS, title="x" * 90, remarks=["y" * 90])


def signals() -> str:
    """Windows, with a fault in one of them."""
    faulty = SIGNALS.copy()
    faulty[5, 10:15, 1] += 4
    detector = Detector().fit(windows(SIGNALS))
    return html_report(detector, windows(faulty, rate=10.0), labels=np.arange(40) == 5)


def measured(folder: Path, html: str, *options: str) -> list[list]:
    """Scroll width, width, height, end of the widest figure, and the colours, at each of the widths."""
    (folder / "report.html").write_text(html)
    frames = "".join(FRAME.format(width=width) for width in WIDTHS)
    (folder / "frames.html").write_text(FRAMES.format(frames=frames))
    reading = ("--allow-file-access-from-files", "--virtual-time-budget=5000", f"--user-data-dir={folder}/profile")
    done = subprocess.run(
        [BROWSER, *QUIET, *reading, *options, "--dump-dom", f"file://{folder}/frames.html"],
        capture_output=True,
        text=True,
        timeout=120,
    )
    found = re.search(r'<pre id="out">(.+?)</pre>', done.stdout)
    assert found, done.stderr[-500:]
    return json.loads(unescape(found[1]))


def lightness(colour: str) -> float:
    return sum(int(part) for part in re.findall(r"\d+", colour)[:3]) / 3


@pytest.mark.parametrize("report", [long_names, signals])
def test_the_page_never_scrolls_sideways_and_follows_the_colour_of_the_system(tmp_path, report):
    html = report()
    light, dark = measured(tmp_path, html), measured(tmp_path, html, DARK)
    for scroll, width, height, widest, ink, paper in light:
        assert scroll <= width
        assert widest <= width
        assert height > 1000
        assert lightness(ink) < 60 < 200 < lightness(paper)
    for *_, ink, paper in dark:
        assert lightness(paper) < 60 < 200 < lightness(ink)
