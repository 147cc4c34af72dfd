"""Reviewers at work, in a real browser and on a real server."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pytest

from indubio import Budget, Detector
from indubio_server.store import Status, chosen_cases, final_labels, history, review, ringing
from tests.review_server import Running, running
from tests.small_examples import LABELS, NAMES, ROWS, TRAINING, table
from tests.stored_cases import assessed, stored

BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
pytestmark = pytest.mark.skipif(BROWSER is None, reason="no Chromium here: apt-get install chromium")
SECONDS, JOB = 60_000, 240_000  # milliseconds to wait for a page, and for a job: the machine may be busy

# The lowest contrast of any text, and what is too small to touch; the colour behind a text is its nearest painted one.
MEASURE = """() => {
  const light = (c) => { const [r, g, b] = c.match(/[\\d.]+/g).map(Number).map(v => v / 255)
      .map(v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
      return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
  const behind = (e) => { for (; e; e = e.parentElement) { const c = getComputedStyle(e).backgroundColor;
      if (!/, 0\\)$/.test(c) && c !== "transparent") return c; } return "rgb(255, 255, 255)"; };
  const texts = [...document.querySelectorAll("body *")].filter(e => e.checkVisibility()
      && !e.closest(":disabled, option, noscript")
      && [...e.childNodes].some(n => n.nodeType === 3 && n.textContent.trim()));
  const contrasts = texts.map(e => { const s = getComputedStyle(e), ink = e.closest("svg") ? s.fill : s.color;
      const [a, b] = [light(ink), light(behind(e))].sort((x, y) => y - x);
      return [(a + 0.05) / (b + 0.05), e.textContent.trim().slice(0, 30)]; });
  const small = [...document.querySelectorAll("button, .button, select, textarea, nav a")]
      .filter(e => e.checkVisibility() && e.getBoundingClientRect().height < 40).map(e => e.textContent);
  const root = document.documentElement;
  const cut = [...document.querySelectorAll(".scroll")].filter(e => e.scrollWidth > e.clientWidth + 1)
      .map(e => e.textContent.trim().slice(0, 30));
  const wide = root.scrollWidth - root.clientWidth;
  return { contrast: contrasts.sort((x, y) => x[0] - y[0])[0], small, wide, cut };
}"""


@pytest.fixture(scope="module")
def browser():
    playwright = pytest.importorskip("playwright.sync_api", reason="no playwright here: pip install playwright")
    with playwright.sync_playwright() as started:
        opened = started.chromium.launch(executable_path=BROWSER, args=["--no-sandbox", "--disable-gpu"])
        yield opened
        opened.close()


@pytest.fixture(scope="module")
def detector():
    return Detector(referral=Budget(share=0.2)).fit(table(TRAINING))


@pytest.fixture
def server(detector, tmp_path) -> Iterator[Running]:
    training = tmp_path / "training.csv"
    np.savetxt(training, TRAINING, delimiter=",", header=",".join(NAMES), comments="")
    with running(detector, tmp_path, training=training, control_share=1.0, referrals_per_hour=5) as started:
        started.assess(ROWS[::2], "press-1")
        started.assess(ROWS[1::2], "press-2")
        yield started


@contextmanager
def visiting(browser, server: Running, name: str | None, **options):
    """A browser window of somebody who has logged in, and what its console complains about."""
    context = browser.new_context(base_url=server.url, **{"viewport": {"width": 1180, "height": 820}} | options)
    context.set_default_timeout(SECONDS)
    page = context.new_page()
    complaints: list[str] = []
    page.on("console", lambda said: complaints.append(said.text) if said.type in ("error", "warning") else None)
    page.on("pageerror", lambda error: complaints.append(str(error)))
    try:
        if name is not None:
            page.goto("/login")
            page.fill("#key", server.keys[name])
            page.press("#key", "Enter")
            page.wait_for_url("**/review")
        yield page
        assert [one for one in complaints if "status of 401" not in one] == []  # a wrong key is told there too
    finally:
        context.close()


def shown(page) -> int:
    return int(page.get_attribute("article.case", "data-case"))


def press_and_go_on(page, key: str) -> int:
    """Press a key on a case; the case that comes then."""
    before = shown(page)
    page.keyboard.press(key)
    page.wait_for_selector(f"article.case:not([data-case='{before}'])")
    page.wait_for_load_state()
    page.wait_for_selector("body:not(.htmx-request):not(.htmx-settling)")
    return shown(page)


def label_everything(server: Running) -> None:
    """As a careful reviewer would, who knows the truth."""
    truth = np.concatenate([LABELS[::2], LABELS[1::2]])

    def labelled(connection) -> None:
        for case, anomaly in zip(chosen_cases(connection), truth, strict=True):
            review(connection, case.id, "bob", "A" if anomaly else "I")

    server.store.write(labelled)


def test_a_reviewer_works_through_the_queue_with_the_keyboard_alone(browser, server):
    with visiting(browser, server, None) as page:
        page.goto("/review/status")
        page.wait_for_selector("#key:focus")  # the page puts the cursor there, a moment after it is shown
        page.keyboard.type("not a key")
        page.keyboard.press("Enter")
        page.wait_for_selector("#wrong")
        page.wait_for_selector("#key:focus")
        page.keyboard.type(server.keys["ada"])
        with page.expect_navigation(url="**/review/status"):
            page.keyboard.press("Enter")
        page.goto("/review?order=uncertainty")
        page.keyboard.press("j")
        page.wait_for_selector("article.case figure svg")

        first = shown(page)
        second = press_and_go_on(page, "a")
        assert server.store.read(final_labels) == {first: "A"}
        assert press_and_go_on(page, "j") != first
        assert press_and_go_on(page, "k") == second
        assert server.store.read(final_labels) == {first: "A"}, "moving on decides nothing"

        assert press_and_go_on(page, "z") == first
        assert server.store.read(final_labels) == {}
        page.wait_for_selector("text=is taken back")

        page.keyboard.press("c")
        page.keyboard.type("jig was loose, a good part")  # letters that are keys elsewhere
        page.keyboard.press("Escape")
        press_and_go_on(page, "i")
        said = server.store.read(lambda c: history(c, first))
        assert [one.label for one in said] == ["A", None, "I"]
        assert said[-1].comment == "jig was loose, a good part"

        page.keyboard.press("?")
        page.wait_for_selector("dialog[open] >> text=previous case")
        page.keyboard.press("u")
        page.keyboard.press("Escape")
        page.keyboard.press("q")
        page.wait_for_selector("table.queue")
        assert server.store.read(final_labels) == {first: "I"}


def test_two_reviewers_at_once_never_get_the_same_case(browser, server):
    with visiting(browser, server, "ada") as ada, visiting(browser, server, "bob") as bob:
        for page in (ada, bob):
            page.goto("/review/next")
        seen: dict[str, list[int]] = {"ada": [shown(ada)], "bob": [shown(bob)]}
        for _ in range(3):
            seen["ada"].append(press_and_go_on(ada, "i"))
            seen["bob"].append(press_and_go_on(bob, "a"))
        assert not set(seen["ada"]) & set(seen["bob"])
        assert len(server.store.read(final_labels)) == 6

        held = seen["ada"][-1]
        bob.goto(f"/review/cases/{held}")
        assert "ada is looking at this case" in bob.text_content(".warning")
        bob.keyboard.press("i")
        assert bob.is_disabled("button[data-key=i]")
        assert held not in server.store.read(final_labels)


def test_labels_become_a_curve_and_the_slider_shows_what_another_budget_would_have_referred(browser, server):
    label_everything(server)
    with visiting(browser, server, "ada") as page:
        page.goto("/review/insights")
        assert page.locator("figure svg[aria-label^=Accuracy]").count() == 1
        assert page.locator("#gains tbody tr").count() == 3
        before = page.text_content("#budget td:nth-child(3)")
        page.focus("#share")
        page.keyboard.press("End")
        page.wait_for_selector(f"#budget tbody tr:first-child td:nth-child(3):not(:text-is('{before}'))")
        now, other = (cell.split(" of ")[0] for cell in page.locator("#budget tr:nth-child(2) td").all_text_contents())
        assert int(other) > int(now), "a larger budget refers more"
        assert page.locator("#budget button").count() == 0, "only an admin makes versions"
        page.goto("/review/status")
        assert "beyond the budget" in page.text_content("#status")
        assert page.locator(".ringing").count() == len(server.service.store.read(ringing)) > 0


def test_a_model_is_trained_anew_compared_activated_and_rolled_back(browser, server):
    label_everything(server)
    with visiting(browser, server, "eve") as page:
        page.goto("/review/models")
        page.click("text=Train anew")
        page.wait_for_selector(".job.running progress")
        page.wait_for_selector("article[data-version='2'] table", timeout=JOB)
        assert page.locator(".job.done").count() == 1
        assert page.locator("article[data-version='2'] tbody tr").count() >= 5
        assert server.service.registry.model().version == 1, "a new version waits for a click"

        page.click("text=Activate version 2")
        page.wait_for_selector("article.active[data-version='2']")
        assert server.service.registry.model().version == 2
        server.assess(ROWS[:3])
        assert {case.version for case in server.store.read(chosen_cases)[-3:]} == {2}

        page.click("text=Roll back to version 1")
        page.wait_for_selector("article.active[data-version='1']")
        assert server.service.registry.model().version == 1


def test_a_budget_becomes_a_version_with_another_threshold(browser, server):
    label_everything(server)
    with visiting(browser, server, "eve") as page:
        page.goto("/review/insights?share=40")
        wanted = page.text_content("#budget td:nth-child(3)")
        page.click("text=Make a version with this threshold")
        page.wait_for_selector("article[data-version='2'] table", timeout=JOB)
        assert f"refers above {wanted} total" in page.text_content("article[data-version='2']")


@pytest.mark.parametrize(
    ("width", "height", "colours", "locale"),
    [(768, 1024, "light", "en"), (768, 1024, "dark", "en"), (390, 844, "dark", "en"), (390, 844, "light", "de-DE")],
)
def test_the_pages_can_be_read_and_touched_on_a_tablet_and_a_phone(browser, server, width, height, colours, locale):
    stored(server.store, [assessed(machine="a machine with a long name, hall 7", external_id="0123456789" * 9)])
    touched = {"viewport": {"width": width, "height": height}, "has_touch": True, "color_scheme": colours}
    touched["locale"] = locale  # German words are the longest
    with visiting(browser, server, "eve", **touched) as page:
        for path in ("", "/next", "/insights", "/models", "/status", "/exchange"):
            page.goto(f"/review{path}")
            found = page.evaluate(MEASURE)
            assert page.get_attribute("html", "lang") == locale[:2]
            assert found["contrast"][0] >= 4.5, (path, found["contrast"])
            assert not found["small"], (path, found["small"])
            assert (found["wide"], found["cut"]) == (0, []), path
        page.goto("/review/next")
        buttons = page.locator(".labels button").last.bounding_box()
        assert buttons["y"] + buttons["height"] <= height, "what must be touched is on the screen"
        before = shown(page)
        page.tap("button[data-key=u]")
        page.wait_for_selector(f"article.case:not([data-case='{before}'])")
        page.wait_for_load_state("networkidle")  # the page may still be putting the cursor where it belongs
        page.keyboard.press("Tab")
        page.wait_for_function("getComputedStyle(document.activeElement).outlineStyle === 'solid'")


def test_everything_works_without_scripts(browser, server):
    with visiting(browser, server, "ada", java_script_enabled=False) as page:
        page.click("text=Start reviewing")
        page.wait_for_url("**/review/cases/*")
        page.click("button[value=A]")
        page.wait_for_selector("text=Take it back")
        page.click("text=Undo")
        page.wait_for_selector("text=is taken back")
        decided = server.store.read(lambda c: chosen_cases(c, status=Status.DECIDED))
        assert not decided
