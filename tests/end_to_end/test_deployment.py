"""`deploy/`: rules and dashboard fit what a real server tells, and files fit each other."""

import json
import re
import shutil
import socket
import stat
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from indubio_server.live.live_metrics import LiveMetrics
from indubio_server.store import Role, ServerStore, add_key
from tests.deployed_broker import DeployedBroker
from tests.monitoring import ADDED, DASHBOARD, DEPLOY, RULES, expressions, grouped, panels, rules, selectors
from tests.served import mixed_model, serving

ROOT = DEPLOY.parent
COMPOSE = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
UNITS = sorted((DEPLOY / "systemd").glob("*.service"))
ROWS = [{"weight": 0.0, "colour": "blue"}, {"weight": None, "colour": "red"}]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("model") / "parts"
    mixed_model(folder)
    return folder


@pytest.fixture
def told(sqlite_store: ServerStore, model: Path, tmp_path: Path) -> dict[str, set[str]]:
    """The labels of every metric that a server tells after some verdicts, by name."""
    with serving(sqlite_store, {"parts": model}, tmp_path / "state") as (service, client):
        assert client.post("/assess", json={"rows": ROWS}).status_code == 200
        service.drift.close()  # what waits to be tested for drift is tested
        text = client.get("/metrics").text
    labels: dict[str, set[str]] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            labels.setdefault(sample.name, set()).update(sample.labels)
    return labels


def live_metrics() -> dict[str, set[str]]:
    """The labels of the metrics of `indubio live`, by name."""
    ends = {"counter": ("_total",), "gauge": ("",), "histogram": ("_bucket", "_sum", "_count")}
    named = [one for one in vars(LiveMetrics()).values() if hasattr(one, "_labelnames")]
    return {
        f"{one._name}{end}": {*one._labelnames, *(("le",) if end == "_bucket" else ())}
        for one in named
        for end in ends[one._type]
    }


def program(name: str) -> str:
    path = shutil.which(name)
    if path is None:
        pytest.skip(f"{name} is not installed here")
    return path


def test_rules_and_dashboard_ask_only_for_metrics_and_labels_that_there_are(told: dict[str, set[str]]) -> None:
    known = told | {"up": set()} | live_metrics()
    for rule in rules():  # those that are recorded have the labels that they are grouped by
        if "record" in rule:
            known[rule["record"]] = grouped(rule["expr"]) - {"le"}
    wrong = []
    for expression in expressions():
        asked = selectors(expression)
        assert asked, expression
        wrong += [(name, labels) for name, labels in asked if not labels <= known.get(name, set()) | ADDED]
        wrong += [name for name, _ in asked if name not in known]
        there = set().union(*(known.get(name, set()) for name, _ in asked))
        wrong += [(expression, grouped(expression))] if not grouped(expression) <= there | ADDED else []
    assert wrong == []


def test_every_metric_of_the_server_is_shown_or_watched(told: dict[str, set[str]]) -> None:
    ending = r"_(total|bucket|sum|count|created)$"
    asked = {re.sub(ending, "", name) for one in expressions() for name, _ in selectors(one)}
    assert {re.sub(ending, "", name) for name in told} <= asked


def test_no_two_panels_share_a_title() -> None:
    shown = [panel["title"] for panel in json.loads(DASHBOARD.read_text())["panels"] if "targets" in panel]
    assert len(shown) == len(set(shown))


def test_every_alert_says_what_to_do() -> None:
    for rule in rules():
        if "alert" in rule:
            assert set(rule["annotations"]) == {"summary", "action"}, rule["alert"]
            assert rule["labels"]["severity"] in ("critical", "warning", "info")


@pytest.mark.parametrize(
    "arguments",
    [
        ["check", "rules", *map(str, RULES)],
        ["test", "rules", "rules_test.yml"],
        ["check", "config", "--syntax-only", "prometheus.yml"],
    ],
    ids=" ".join,
)
def test_promtool_accepts_rules_and_configuration(arguments: list[str]) -> None:
    command = [program("promtool"), *arguments]
    done = subprocess.run(command, cwd=DEPLOY / "prometheus", capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_service_is_hardened_and_says_whether_it_is_well() -> None:
    for name, service in COMPOSE["services"].items():
        assert service["read_only"], name
        assert service["cap_drop"] == ["ALL"], name
        assert service["security_opt"] == ["no-new-privileges:true"], name
        if service["image"].startswith("indubio:"):  # its Dockerfile names the user
            assert "user" not in service, name
        else:
            assert service["user"].split(":")[0] not in ("0", "root"), name
        assert all(published.startswith("127.0.0.1:") for published in service.get("ports", ())), name
    docker = (DEPLOY / "Dockerfile").read_text()
    assert "HEALTHCHECK" in docker
    assert re.findall(r"^USER (.*)$", docker, flags=re.MULTILINE) == ["10001:10001"]


def test_a_service_waits_for_what_it_needs() -> None:
    for name, service in COMPOSE["services"].items():
        for other, how in service.get("depends_on", {}).items():
            needed = COMPOSE["services"][other]
            once = how["condition"] == "service_completed_successfully"
            assert once == (needed.get("restart") == "no"), (name, other)
            built = needed["image"].startswith("indubio:")
            assert once or how["condition"] == "service_healthy", (name, other)
            assert once or built or "healthcheck" in needed, (name, other)


def test_what_is_mounted_is_there() -> None:
    mounts = [one.split(":") for service in COMPOSE["services"].values() for one in service.get("volumes", ())]
    for source, *_ in mounts:
        if source.startswith("./"):
            assert (DEPLOY / source).exists(), source
        elif not source.startswith("$"):
            assert source in COMPOSE["volumes"]
    for service in COMPOSE["services"].values():
        assert set(service.get("secrets", ())) <= set(COMPOSE["secrets"])
        assert set(service.get("networks", ())) <= set(COMPOSE["networks"])


def test_the_secrets_are_made_once_and_nobody_else_may_enter_their_folder(tmp_path: Path) -> None:
    folder = tmp_path / "secrets"
    command = ["sh", str(DEPLOY / "make-secrets.sh"), str(folder)]
    subprocess.run(command, check=True)
    made = {path.name: path.read_text() for path in folder.iterdir()}
    keys = {name for name in COMPOSE["secrets"] if name.endswith("_key")}  # `indubio keys add` prints those
    assert set(COMPOSE["secrets"]) - keys == set(made)
    passwords = {name: text for name, text in made.items() if name.endswith("_password")}
    assert len(set(passwords.values())) == len(passwords)
    assert all(re.fullmatch("[0-9a-f]{48}", text) for text in passwords.values())
    assert passwords["database_password"] in made["database_url"]
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    subprocess.run(command, check=True)
    assert {path.name: path.read_text() for path in folder.iterdir()} == made


def test_the_image_is_given_no_more_than_the_wheel_is_built_from() -> None:
    lines = (ROOT / ".dockerignore").read_text().splitlines()
    assert next(line for line in lines if not line.startswith("#")) == "*"
    given = {line[1:] for line in lines if line.startswith("!")}
    assert all((ROOT / name).exists() for name in given)
    assert {"secrets", "deploy", "tests", ".git"}.isdisjoint(given)
    build = (ROOT / "pyproject.toml").read_text()
    assert {"pyproject.toml", "hatch_build.py", "packages", "constraints.txt", "README.md", "LICENSE"} <= given
    assert 'readme = "README.md"' in build  # a wheel is not built without the files that pyproject.toml names


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
def test_systemd_reads_the_unit_and_finds_little_exposed(unit: Path) -> None:
    analyze = program("systemd-analyze")
    done = subprocess.run([analyze, "verify", str(unit)], capture_output=True, text=True, check=False)
    complaints = [line for line in done.stderr.splitlines() if line.startswith(unit.name) or str(unit) in line]
    assert [one for one in complaints if "/opt/indubio/bin/indubio is not executable" not in one] == []
    command = [analyze, "security", "--offline=yes", "--threshold=20", str(unit)]
    exposed = subprocess.run(command, capture_output=True, text=True, check=False)
    assert exposed.returncode == 0, exposed.stdout.splitlines()[-1]


@pytest.fixture
def prometheus(sqlite_store: ServerStore, model: Path, tmp_path: Path) -> Iterator[tuple[httpx.Client, httpx.Client]]:
    """A server with keys, and the real Prometheus that reads its metrics as the given configuration says."""
    key = sqlite_store.write(lambda c: add_key(c, "prometheus", Role.METRICS, actor="test"))
    scorer = sqlite_store.write(lambda c: add_key(c, "line 3", Role.SCORER, actor="test"))
    (tmp_path / "key").write_text(f"{key}\n")
    shutil.copytree(DEPLOY / "prometheus", tmp_path / "prometheus")
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{one.getsockname()[1]}"
    executable = program("prometheus")
    with serving(sqlite_store, {"parts": model}, tmp_path / "state") as (_, client):
        config = tmp_path / "prometheus" / "prometheus.yml"
        given = config.read_text()
        for old, new in (
            ("/run/secrets/prometheus_key", str(tmp_path / "key")),
            ("server:8080", client.base_url.netloc.decode()),
            ("_interval: 15s", "_interval: 1s"),
        ):
            assert old in given
            given = given.replace(old, new)
        config.write_text(given)
        client.headers["authorization"] = f"Bearer {scorer}"
        command = [executable, f"--config.file={config}", f"--storage.tsdb.path={tmp_path / 'data'}"]
        with (tmp_path / "log").open("w") as log:
            process = subprocess.Popen([*command, f"--web.listen-address={address}"], stderr=log, stdout=log)
            try:
                with httpx.Client(base_url=f"http://{address}", timeout=10) as asked:
                    yield client, asked
            finally:
                process.terminate()
                process.wait()


@pytest.mark.slow
def test_prometheus_reads_the_server_and_every_panel_of_the_dashboard_has_data(
    prometheus: tuple[httpx.Client, httpx.Client],
) -> None:
    client, asked = prometheus

    def queried(expression: str) -> bool:
        expression = expression.replace("$instance", ".*").replace("$model", ".*")
        answer = asked.get("/api/v1/query", params={"query": expression}).json()
        assert answer["status"] == "success", (expression, answer)
        return bool(answer["data"]["result"])

    # `indubio live` does not run here, so its panels have no data.
    shown = {title: queries for title, queries in panels().items() if "indubio_live_" not in "".join(queries)}
    empty, until = {"not asked yet"}, time.monotonic() + 90
    while empty:
        assert time.monotonic() < until, empty
        client.post("/assess", json={"rows": ROWS})
        time.sleep(1)
        try:
            empty = {title for title, queries in shown.items() if not all(map(queried, queries))}
        except httpx.TransportError:
            continue
    loaded = asked.get("/api/v1/rules").json()["data"]["groups"]
    assert [rule["health"] for group in loaded for rule in group["rules"]] == ["ok"] * len(rules())
    targets = asked.get("/api/v1/targets").json()["data"]["activeTargets"]
    assert [one["health"] for one in targets if one["labels"]["job"] == "indubio"] == ["up"]


MACHINES = "press-3", "press-4"


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[DeployedBroker]:
    """Mosquitto with the given configuration and passwords."""
    program("mosquitto_passwd")
    subprocess.run(["sh", str(DEPLOY / "make-secrets.sh"), str(tmp_path / "secrets")], check=True)
    for name in MACHINES:
        add = ["sh", str(DEPLOY / "add-machine.sh"), name, str(tmp_path / "secrets")]
        subprocess.run(add, check=True, stdout=subprocess.DEVNULL)
    make = ["sh", str(DEPLOY / "mosquitto" / "make-passwords.sh"), str(tmp_path / "secrets"), str(tmp_path / "passwd")]
    subprocess.run(make, check=True)
    started = DeployedBroker(program("mosquitto"), tmp_path)
    started.start()
    yield started
    started.stop()


def test_what_a_machine_sends_while_the_reader_is_away_outlives_a_restart_of_the_broker(broker: DeployedBroker) -> None:
    with broker.client("live", clean=False) as live:
        live.subscribe("machines/#", qos=1)
        broker.await_(lambda: live.granted)
    with broker.client("press-3") as machine:
        machine.publish("machines/press-3", b"example 17", qos=1).wait_for_publish(10)
    broker.stop()
    broker.start()
    with broker.client("live", clean=False) as live:
        broker.await_(lambda: live.heard)
        assert live.heard == [("machines/press-3", b"example 17")]


def test_a_machine_can_forge_no_verdict(broker: DeployedBroker) -> None:
    with broker.client("live") as live, broker.client("press-3") as machine:
        machine.subscribe("verdicts/press-3", qos=1)
        broker.await_(lambda: machine.granted)
        machine.publish("verdicts/press-3", b"forged", qos=1).wait_for_publish(10)
        live.publish("verdicts/press-3", b"INLIER", qos=1).wait_for_publish(10)
        broker.await_(lambda: machine.heard)
        assert machine.heard == [("verdicts/press-3", b"INLIER")]


def test_a_machine_neither_sends_for_another_nor_reads_what_is_said_of_it(broker: DeployedBroker) -> None:
    with broker.client("live") as live, broker.client("press-3") as one, broker.client("press-4") as other:
        live.subscribe("machines/#", qos=1)
        other.subscribe([("verdicts/#", 1), ("machines/#", 1)])
        broker.await_(lambda: live.granted and other.granted)
        other.publish("machines/press-3", b"forged", qos=1).wait_for_publish(10)
        one.publish("machines/press-3", b"true", qos=1).wait_for_publish(10)
        live.publish("verdicts/press-3", b"INLIER", qos=1).wait_for_publish(10)
        live.publish("verdicts/press-4", b"REFER", qos=1).wait_for_publish(10)
        broker.await_(lambda: live.heard and other.heard)
        assert live.heard == [("machines/press-3", b"true")]
        assert other.heard == [("verdicts/press-4", b"REFER")]


def test_the_broker_lets_nobody_in_without_a_password(broker: DeployedBroker) -> None:
    with broker.client("press-3", password="wrong") as refused:
        broker.await_(lambda: refused.refused)
    with broker.client(None) as nameless:
        broker.await_(lambda: nameless.refused)
