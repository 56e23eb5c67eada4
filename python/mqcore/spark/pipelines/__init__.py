"""The life of messages after the broker: archive, compact, enrich, replay, report, verify.

Each is a function of a session; `mqcore spark run NAME` calls it by its name. None of their files
imports Spark before it works, since `mqcore store archive` writes the same archives without.
"""

from mqcore.spark.pipelines.archive import archive
from mqcore.spark.pipelines.compact import compact
from mqcore.spark.pipelines.enrich import enrich
from mqcore.spark.pipelines.replay import replay
from mqcore.spark.pipelines.report import report
from mqcore.spark.pipelines.verify import verify

__all__ = ["archive", "compact", "enrich", "replay", "report", "verify"]
