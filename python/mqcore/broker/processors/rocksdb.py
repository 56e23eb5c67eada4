"""Requests about state that official brokers may keep in RocksDB, where here it is in files.

Nothing has to be moved, compared or converted; what is asked for is so already, and is answered so.
"""

from collections.abc import Mapping
from typing import Final

from mqcore.broker.config_persistence import ConfigPersistence
from mqcore.model.relaxed_json import compact
from mqcore.native import Command
from mqcore.remoting import Handler, Request, RequestCode

# `CheckRocksdbCqWriteResult.CheckStatus.CHECK_OK`.
_CHECK_OK: Final = 0


class RocksDb:
    """Serves the requests about RocksDB."""

    def __init__(self, persistence: ConfigPersistence) -> None:
        """Takes what writes the broker's small files."""
        self._persistence = persistence

    def handlers(self) -> Mapping[int, Handler]:
        """Returns the codes served here."""
        return {
            RequestCode.CHECK_ROCKSDB_CQ_WRITE_PROGRESS: self.compare_queues,
            RequestCode.EXPORT_ROCKSDB_CONFIG_TO_JSON: self.export,
            RequestCode.POP_ROLLBACK: self.move_pops,
        }

    def compare_queues(self, request: Request) -> Command:
        """354: whether queues in RocksDB agree with those in files (officially a line of a log)."""
        result = {"checkResult": "no queues in RocksDB", "checkStatus": _CHECK_OK}
        return request.answer(body=compact(result))

    async def export(self, request: Request) -> Command:
        """355: topics, groups and offsets as JSON files: they are that, and written now."""
        await self._persistence.offsets.save()
        return request.answer(remark="export done.")

    def move_pops(self, request: Request) -> Command:
        """200056: open pops from RocksDB into the log, where they are."""
        return request.answer()
