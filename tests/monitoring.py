"""What the rules and the dashboard of `deploy/` ask Prometheus for."""

import json
import re
from pathlib import Path
from typing import Any

import yaml

DEPLOY = Path(__file__).parents[1] / "deploy"
DASHBOARD = DEPLOY / "grafana" / "dashboards" / "indubio.json"
RULES = sorted((DEPLOY / "prometheus" / "rules").glob("*.yml"))
ADDED = {"instance", "job"}  # labels that Prometheus itself puts on every series


def rules() -> list[dict[str, Any]]:
    """Every recording and alerting rule."""
    return [rule for file in RULES for group in yaml.safe_load(file.read_text())["groups"] for rule in group["rules"]]


def panels() -> dict[str, list[str]]:
    """The queries of every panel of the dashboard, by its title."""
    shown = json.loads(DASHBOARD.read_text())["panels"]
    return {panel["title"]: [one["expr"] for one in panel["targets"]] for panel in shown if "targets" in panel}


def expressions() -> list[str]:
    """Every expression of rules and dashboard, with the variables of the dashboard."""
    board = json.loads(DASHBOARD.read_text())
    variables = [one["definition"] for one in board["templating"]["list"]]
    return [rule["expr"] for rule in rules()] + [one for asked in panels().values() for one in asked] + variables


def selectors(expression: str) -> list[tuple[str, set[str]]]:
    """The metrics of an expression, each with the labels that are asked of it."""
    found = re.findall(r"\b((?:indubio[_:][\w:]*|up))\b(?:\{([^}]*)\})?", expression)
    return [(name, set(re.findall(r"(\w+)\s*(?:=~|!~|!=|=)", inner))) for name, inner in found]


def grouped(expression: str) -> set[str]:
    """The labels that an expression groups by, or takes the values of."""
    inner = re.findall(r"\bby \(([^)]*)\)", expression) + re.findall(r"label_values\(.*, (\w+)\)$", expression)
    return {label.strip() for one in inner for label in one.split(",")}
