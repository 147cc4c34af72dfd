"""Logging in at a provider and out again, in a real browser: cookies and content policies are its own."""

import re
import shutil

import pytest

from indubio import Budget, Detector
from tests.oidc_provider import PROVIDER_WARNINGS, provider
from tests.review_server import running
from tests.small_examples import ROWS, TRAINING, table

BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
pytestmark = [
    pytest.mark.skipif(BROWSER is None, reason="no Chromium here: apt-get install chromium"),
    *PROVIDER_WARNINGS,
]
PLANT = '[sites.hamburg.lines.press]\nmachines = ["press-*"]\n[sites.mill.lines.all]\nmachines = ["mill-*"]\n'


def test_a_person_logs_in_at_the_provider_reviews_and_logs_out(tmp_path, monkeypatch):
    playwright = pytest.importorskip("playwright.sync_api", reason="no playwright here: pip install playwright")
    monkeypatch.setenv("INDUBIO_TEST_SECRET", "a secret")
    (tmp_path / "plant.toml").write_text(PLANT)
    detector = Detector(referral=Budget(share=0.2)).fit(table(TRAINING))
    with provider() as works:
        login = works.login(tmp_path)
        with (
            running(detector, tmp_path, plant=tmp_path / "plant.toml", login=login, control_share=1.0) as server,
            playwright.sync_playwright() as started,
        ):
            login.public_url = server.url
            server.assess(ROWS[:2], "press-1")
            server.assess(ROWS[:3], "mill-1")
            browser = started.chromium.launch(executable_path=BROWSER, args=["--no-sandbox", "--disable-gpu"])
            page = browser.new_page(base_url=server.url)
            page.set_default_timeout(60_000)
            complaints: list[str] = []
            page.on("console", lambda said: complaints.append(f"{said.type} of {said.location['url']}: {said.text}"))
            page.goto("/review/status")
            page.click("text=Log in with Works")
            page.wait_for_url(f"{works.issuer}/**")
            page.click("button[value='s-ada']")
            page.wait_for_url(f"{server.url}/review/status")
            assert page.inner_text(".who span") == "oidc:ada"
            page.goto("/review")
            assert page.inner_text("h1") == "2 cases wait"
            assert page.locator("select[name=site] option").all_inner_texts() == ["all", "hamburg", "hamburg/press"]
            page.click("text=Log out")
            page.wait_for_url(re.compile(f"{works.issuer}/oauth2/end_session.*"))
            page.click("button >> nth=0")
            page.wait_for_url(re.compile(f"{server.url}/login.*"))
            page.goto("/review")
            page.wait_for_url(f"{server.url}/login**")
            assert [one for one in complaints if re.match(f"(error|warning) of {server.url}", one)] == []
            browser.close()
