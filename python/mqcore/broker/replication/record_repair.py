"""Damaged records of an open log, fetched from another replica of the group while the broker runs.

The scrub and cold reads find them. What another replica has at that place is looked at and compared
by the store before it is written (`Store::replace_record`): a whole record of the place, which fits
the gap, between records that are the same on both. Files that are mapped, the newest ones, are left
to `mqcore store repair`. Knows no format of a record.
"""

import asyncio
import logging
from typing import Final

from mqcore.broker.replication.member_hosts import members_in
from mqcore.broker.state import BrokerState
from mqcore.errors import BadJsonError, MQError
from mqcore.model.relaxed_json import compact, parse_object
from mqcore.native import BadRecord, bad_record_at, replace_record
from mqcore.periodic import PeriodicTasks
from mqcore.remoting import Client, RequestCode, ResponseCode, expect

__all__ = ["RecordRepair"]

_log = logging.getLogger("mqcore.broker")

_LOOK_S: Final = 5.0
# A record may be cold at the other replica.
_TIMEOUT_S: Final = 5.0
# Each reads a file of the log: the rest comes with the next looks.
_RECORDS_PER_LOOK: Final = 4
# A record that could not be repaired is tried again after so long: a replica may be back then.
_AGAIN_S: Final = 60.0
# Replicas that are asked for one record.
_REPLICAS_MAX: Final = 8


class RecordRepair:
    """The repair of one broker's log.

    Attributes:
        repaired: How many records were replaced.
    """

    def __init__(self, state: BrokerState) -> None:
        """Takes the broker; `start` begins."""
        self._state = state
        self._client = Client(
            tls=state.outgoing_tls, credentials=state.credentials, version=state.version
        )
        self._tasks = PeriodicTasks()
        # When a record may be tried again, and what was logged of it.
        self._again_s: dict[int, float] = {}
        self._logged: dict[int, str] = {}
        self.repaired = 0

    def start(self) -> None:
        """Begins to look."""
        self._tasks.every("damaged records", self.look, period_s=lambda: _LOOK_S)

    async def stop(self) -> None:
        """Ends; a record that is being written is written whole."""
        await self._tasks.stop()
        await self._client.close()

    async def look(self) -> None:
        """Repairs some of what was found."""
        store, settings = self._state.store, self._state.settings
        found = [] if settings.mounted_dir else store.damaged_records()
        offsets = {each.physical_offset for each in found}
        self._again_s = {at: due for at, due in self._again_s.items() if at in offsets}
        self._logged = {at: why for at, why in self._logged.items() if at in offsets}
        now_s = asyncio.get_running_loop().time()
        due = sorted(at for at in offsets if self._again_s.get(at, 0.0) <= now_s)
        if not due:
            return
        replicas = await self._replicas() if settings.repairs_records else []
        for at in due[:_RECORDS_PER_LOOK]:
            why = await self._repair(at, replicas)
            if why:
                self._again_s[at] = now_s + _AGAIN_S
                self._report(at, why, replicas)

    def _report(self, at: int, why: str, replicas: list[str]) -> None:
        if self._logged.get(at) == why:
            return
        self._logged[at] = why
        _log.warning(
            "the record at physical offset %d is not repaired: %s. Stop this broker while a "
            "replica runs, then `mqcore store repair --from %s %s`, and start it again",
            at,
            why,
            next(iter(replicas), "HOST:PORT"),
            self._state.settings.store_dir,
        )

    async def _repair(self, at: int, replicas: list[str]) -> str:
        """Repairs one record; returns why it is not repaired, empty where it is."""
        if not self._state.settings.repairs_records:
            return "recordRepairEnable is false"
        if not replicas:
            return "no other replica is known"
        try:
            bad = await asyncio.to_thread(bad_record_at, self._state.store, at)
        except MQError as error:
            return error.message
        if bad is None:
            return "no whole record follows it in what is settled of the log"
        why = ""
        for address in replicas:
            try:
                record, around = await self._fetched(address, bad)
                kept = await asyncio.to_thread(
                    replace_record, self._state.store, at, record, around
                )
            except MQError as error:
                why = error.message
                continue
            self.repaired += 1
            _log.warning(
                "the record at physical offset %d was damaged (%s), and is replaced by that of %s; "
                "what was there is kept in %s",
                at,
                bad.why,
                address,
                kept,
            )
            return ""
        return why

    async def _fetched(self, address: str, bad: BadRecord) -> tuple[bytes, list[tuple[int, bytes]]]:
        """Returns what a replica has in place of a bad record, and around it.

        Raises:
            MQError: It does not answer, or has no record there.
        """
        around = [each for each in (bad.before, bad.next_whole) if each is not None]
        record = await self._record(address, bad.physical_offset)
        return record, [(each, await self._record(address, each)) for each in around]

    async def _record(self, address: str, physical_offset: int) -> bytes:
        """Returns the bytes of a record (33), as they lie in a log."""
        ext = {"offset": str(physical_offset)}
        code = RequestCode.VIEW_MESSAGE_BY_ID
        answer = await self._client.call(address, code, ext, timeout_s=_TIMEOUT_S)
        return bytes(expect(answer, address).body)

    async def _replicas(self) -> list[str]:
        """Returns the addresses of the others of the group, the master first."""
        state = self._state
        name = state.settings.name
        asked = [(each, RequestCode.GET_BROKER_CLUSTER_INFO, b"") for each in state.name_servers]
        if state.role.is_controlled:
            sets = RequestCode.CONTROLLER_GET_SYNC_STATE_DATA
            asked += [(each, sets, compact([name])) for each in state.settings.controllers]
        found: set[str] = set()
        for address, code, body in asked:
            try:
                answer = await self._client.call(address, code, {}, body, timeout_s=_TIMEOUT_S)
                if answer.code == ResponseCode.SUCCESS:
                    found |= members_in(parse_object(answer.body), name)
            except (MQError, BadJsonError):
                continue
        master = state.replicas.master_address
        others = sorted(found - {state.address, master})
        first = [master] if master and master != state.address else []
        return (first + others)[:_REPLICAS_MAX]
