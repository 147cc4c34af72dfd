"""The pictures of docs/review.md: a server on generated data, some of it reviewed, seen in a headless Chromium."""

import shutil
import tempfile
import threading
import time
from pathlib import Path

import httpx
import numpy as np
import pyarrow as pa
import uvicorn
from playwright.sync_api import sync_playwright
from sqlalchemy import Connection

from indubio import AnchoredEnsemble, Budget, Detector, Training
from indubio.data import Table
from indubio.storage import save
from indubio_server.app import build_app
from indubio_server.process import configured
from indubio_server.server_settings import ServerSettings
from indubio_server.service import Service
from indubio_server.store import Role, ServerStore, add_key, chosen_cases, review

IMAGES = Path(__file__).parent / "images"
NAMES = ("temperature", "pressure", "flow", "speed", "torque", "vibration")
GOOD, BAD, PORT = 160, 60, 8093


def parts(rng: np.random.Generator, count: int) -> np.ndarray:
    """Parts whose measurements move together."""
    usual = np.array([70, 12, 4.5, 100, 30, 0.8])
    together = rng.normal(size=(count, 1)) * [2, 1, 0.4, 5, 3, 0.1]
    return usual + together + rng.normal(size=(count, 6)) * [0.8, 0.4, 0.15, 2, 1, 0.04]


def table(rows: np.ndarray) -> Table:
    """Rows with their names."""
    return Table(features=pa.table(dict(zip(NAMES, rows.T, strict=True))))


def filled(service: Service, url: str, key: str, rng: np.random.Generator) -> None:
    """Score parts, keep them, and label most as somebody who knows."""
    bad = parts(rng, BAD)
    bad[np.arange(BAD), rng.integers(0, 6, BAD)] += rng.choice([-1, 1], BAD) * rng.uniform(0.3, 6, BAD)
    rows, truth = np.concatenate([parts(rng, GOOD), bad]), np.repeat([False, True], [GOOD, BAD])
    order = rng.permutation(len(rows))
    body = {
        "rows": [dict(zip(NAMES, row, strict=True)) for row in rows[order].tolist()],
        "machine": [f"press-{1 + place % 3}" for place in range(len(rows))],
        "ids": [f"P-{place:04}" for place in range(len(rows))],
    }
    httpx.post(f"{url}/assess", json=body, headers={"X-API-Key": key}, timeout=120).raise_for_status()

    def label(connection: Connection) -> None:
        for case in chosen_cases(connection)[:-40]:
            anomaly = truth[order][int(str(case.external_id).removeprefix("P-"))]
            review(connection, case.id, "shift A", "A" if anomaly else "I")
            if case.id % 5 == 0:
                review(connection, case.id, "shift B", "A" if anomaly != (case.id % 45 == 0) else "I")

    service.store.write(label)


def pictures(url: str, key: str) -> None:
    """Log in, and take the pictures."""
    with sync_playwright() as started:
        browser = started.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        page = browser.new_page(base_url=url, viewport={"width": 1100, "height": 720})
        page.set_default_timeout(120_000)
        page.goto("/login")
        page.fill("#key", key)
        page.press("#key", "Enter")
        page.wait_for_url("**/review")
        page.goto("/review/next?order=uncertainty")
        page.screenshot(path=IMAGES / "review_case.png", full_page=True)
        page.goto("/review/insights?share=15")
        page.screenshot(path=IMAGES / "review_insights.png", full_page=True)
        browser.close()


def main() -> None:
    """Make both pictures."""
    rng = np.random.default_rng(0)
    detector = Detector(
        posterior=AnchoredEnsemble(members=5), training=Training(epochs=40), referral=Budget(share=0.1)
    ).fit(table(parts(rng, 500)))
    with tempfile.TemporaryDirectory() as folder, ServerStore(f"sqlite:///{folder}/store.sqlite") as store:
        save(detector, Path(folder) / "press")
        line, reviewer = (
            store.write(lambda c, name=name, role=role: add_key(c, name, role, actor="docs"))
            for name, role in (("line", Role.SCORER), ("shift A", Role.REVIEWER))
        )
        settings = ServerSettings(control_share=0.5, open=True)
        service = Service(store, {"press": Path(folder) / "press"}, Path(folder) / "state", settings)
        server = uvicorn.Server(configured(build_app(service), host="127.0.0.1", port=PORT))
        thread = threading.Thread(target=server.run)
        thread.start()
        while not server.started:
            time.sleep(0.05)
        try:
            filled(service, f"http://127.0.0.1:{PORT}", line, rng)
            pictures(f"http://127.0.0.1:{PORT}", reviewer)
        finally:
            server.should_exit = True
            thread.join()
            service.close()


if __name__ == "__main__":
    main()
