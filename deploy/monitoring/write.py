"""Writes the boards of Grafana and the alerts of Prometheus that stand beside this file.

    python deploy/monitoring/write.py             # grafana/*.json, prometheus/alerts.yml, docs
    python deploy/monitoring/write.py --check     # exits with 1 where one of them is not current
    python deploy/monitoring/write.py --run-books https://wiki/run-books   # where alerts link to

They are made of `boards.py` and `alerts.py`; expressions name families of the broker's own table,
so that none can ask for what there is not.
"""

import argparse
import json
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from alerts import ALERTS, RUN_BOOKS, Alert
from boards import BOARDS, OF_BROKER, Board, Panel
from expressions import expression

HERE = Path(__file__).parent
_DATASOURCE = {"type": "prometheus", "uid": "${datasource}"}
# A board of Grafana is 24 wide.
_WIDTH, _HEIGHT, _COLUMNS = 12, 8, 2
# A family that has the label, to list its values.
_LISTED = {
    "cluster": "mqcore_build_info",
    "node_id": "mqcore_build_info",
    "topic": "rocketmq_messages_in_total",
    "consumer_group": "rocketmq_consumer_lag_messages",
}


def files(run_books: str = RUN_BOOKS) -> dict[Path, str]:
    """Returns what the files are to hold."""
    made = {HERE / "prometheus" / "alerts.yml": _rules(run_books)}
    for board in BOARDS:
        text = json.dumps(_board(board), indent=2, ensure_ascii=False)
        made[HERE / "grafana" / f"{board.uid}.json"] = text + "\n"
    return made


def queries() -> list[tuple[str, str, str]]:
    """Returns board, panel and expression of everything that a board asks."""
    return [
        (board.uid, panel.title, expression(text, OF_BROKER))
        for board in BOARDS
        for panel in board.panels
        for text, _legend in panel.queries
    ]


def _board(board: Board) -> dict[str, Any]:
    return {
        "uid": board.uid,
        "title": board.title,
        "tags": ["mqcore"],
        "schemaVersion": 39,
        "editable": True,
        "refresh": "30s",
        "time": {"from": "now-1h", "to": "now"},
        "templating": {"list": [_datasource(), *map(_variable, board.variables)]},
        "panels": [_panel(at, panel) for at, panel in enumerate(board.panels)],
    }


def _datasource() -> dict[str, Any]:
    return {"name": "datasource", "type": "datasource", "query": "prometheus", "label": "Source"}


def _variable(label: str) -> dict[str, Any]:
    query = f"label_values({_LISTED[label]}, {label})"
    return {
        "name": label,
        "type": "query",
        "label": label,
        "datasource": _DATASOURCE,
        "query": {"query": query, "refId": label},
        "definition": query,
        "refresh": 2,
        "includeAll": True,
        "allValue": ".*",
        "multi": True,
        "current": {"text": "All", "value": "$__all"},
    }


def _panel(at: int, panel: Panel) -> dict[str, Any]:
    row, column = divmod(at, _COLUMNS)
    return {
        "id": at + 1,
        "type": panel.kind,
        "title": panel.title,
        "description": panel.words,
        "datasource": _DATASOURCE,
        "gridPos": {"x": column * _WIDTH, "y": row * _HEIGHT, "w": _WIDTH, "h": _HEIGHT},
        "fieldConfig": {"defaults": {"unit": panel.unit, "min": 0}, "overrides": []},
        "targets": [
            {
                "refId": chr(ord("A") + number),
                "datasource": _DATASOURCE,
                "expr": expression(text, OF_BROKER),
                "legendFormat": legend,
                "instant": panel.kind == "table",
            }
            for number, (text, legend) in enumerate(panel.queries)
        ],
    }


def _rules(run_books: str) -> str:
    """Returns the alerts as YAML; strings are written as JSON has them, which YAML reads."""
    lines = [
        "# Made by deploy/monitoring/write.py from alerts.py: change that.",
        "groups:",
        "  - name: mqcore",
        "    rules:",
    ]
    for alert in ALERTS:
        lines += _rule(alert, run_books)
    return "\n".join(lines) + "\n"


def _rule(alert: Alert, run_books: str) -> list[str]:
    return [
        f"      - alert: {alert.name}",
        f"        expr: {json.dumps(expression(alert.expr))}",
        f"        for: {alert.wait}",
        "        labels:",
        f"          severity: {alert.level}",
        "        annotations:",
        f"          summary: {json.dumps(alert.summary)}",
        f"          runbook_url: {json.dumps(alert.link(run_books))}",
    ]


def main() -> int:
    """Writes or checks the files; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--run-books", default=RUN_BOOKS, metavar="URL")
    given = parser.parse_args()
    stale = []
    for path, text in files(given.run_books).items():
        if path.is_file() and path.read_text(encoding="utf-8") == text:
            continue
        stale.append(path)
        if not given.check:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
    for path in stale:
        print(path.relative_to(HERE))
    return int(given.check and bool(stale))


if __name__ == "__main__":
    sys.exit(main())
