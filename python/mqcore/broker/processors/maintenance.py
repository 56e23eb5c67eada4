"""The broker itself as tools see it: its settings, its state in figures, its housekeeping."""

import asyncio
import logging
from collections.abc import Mapping
from typing import Final

from mqcore.broker.config_persistence import ConfigPersistence
from mqcore.broker.runtime import runtime_table, sampled
from mqcore.broker.settings_changes import changed
from mqcore.broker.state import BrokerState
from mqcore.config import parse_properties
from mqcore.config.log_levels import apply_log_levels
from mqcore.errors import ConfigFileError, RefusedError
from mqcore.model.relaxed_json import compact
from mqcore.native import Command
from mqcore.remoting import Handler, Request, RequestCode, ResponseCode

_HOUR_MS: Final = 3_600_000
_PERMISSION: Final = "brokerPermission"
_LOG_LEVEL: Final = "mqcoreLogLevel"
# Files removed by one request, as one round of the official broker (`deleteFileBatchMax`).
_REMOVED_MAX: Final = 10


class Maintenance:
    """Serves the requests about the broker itself."""

    def __init__(self, state: BrokerState, persistence: ConfigPersistence) -> None:
        """Takes what it works on."""
        self._state = state
        self._persistence = persistence

    def handlers(self) -> Mapping[int, Handler]:
        """Returns the codes served here."""
        return {
            RequestCode.GET_BROKER_CONFIG: self.config,
            RequestCode.UPDATE_BROKER_CONFIG: self.update_config,
            RequestCode.GET_BROKER_RUNTIME_INFO: self.runtime,
            RequestCode.VIEW_BROKER_STATS_DATA: self.stats,
            RequestCode.CLEAN_EXPIRED_CONSUMEQUEUE: self.clean_queues,
            RequestCode.CLEAN_UNUSED_TOPIC: self.clean_topics,
            RequestCode.DELETE_EXPIRED_COMMITLOG: self.delete_expired,
        }

    def config(self, request: Request) -> Command:
        """26: every setting; secrets masked."""
        settings, role = self._state.settings.configuration.settings, self._state.role
        shown = {name: setting.shown for name, setting in settings.items()}
        if role.is_controlled:
            # The official broker changes the two settings with its role.
            shown |= {"brokerRole": role.official_name, "brokerId": str(role.broker_id)}
        text = "".join(f"{name}={shown[name]}\n" for name in sorted(shown))
        version = compact(self._state.settings_version.to_json()).decode()
        return request.answer(ext={"version": version}, body=text.encode())

    async def update_config(self, request: Request) -> Command:
        """25: changes settings: all of them or none; the remark names those of the next start."""
        try:
            pairs = parse_properties(request.body.decode("utf-8", "replace"), "the request")
        except ConfigFileError as error:
            raise RefusedError(error.message, code=ResponseCode.SYSTEM_ERROR) from error
        state = self._state
        changes = changed(state.settings, pairs, has_file=state.config_path is not None)
        if changes.settings.access != state.settings.access:
            self._check_super(request)
        if changes.made:
            settings = changes.settings
            if changes.is_of_store:
                # First: it may refuse what the tables of settings do not see.
                await asyncio.to_thread(
                    state.store.change_settings, settings.engine, settings.store_dir
                )
            before = state.settings.log_levels
            state.change_settings(settings)
            apply_log_levels(before, settings.log_levels)
            if _LOG_LEVEL in changes.made:
                logging.getLogger("mqcore").setLevel(settings.log_level.upper())
            if _PERMISSION in changes.made:
                # Also where it stays what it is: what name servers wiped comes back so.
                state.topics.renew(state.now_ms())
            await self._persistence.settings_changed(changes.made)
        return request.answer(remark=changes.remark)

    def _check_super(self, request: Request) -> None:
        """Refuses who is no Super user: by these settings everybody could be let in."""
        access = self._state.access
        if access.is_enforced and not access.is_super(request.user):
            raise RefusedError(
                f"User:{request.user} is not a super user.", code=ResponseCode.NO_PERMISSION
            )

    async def runtime(self, request: Request) -> Command:
        """28: the broker in figures."""
        table = await asyncio.to_thread(runtime_table, self._state, self._state.fast_path.stats())
        return request.answer(body=compact({"table": table}))

    async def stats(self, request: Request) -> Command:
        """315: a counter over the last minute, hour and day."""
        name, key = request.field("statsName"), request.field("statsKey")
        series = self._state.statistics.find(name, key)
        if series is None and self._state.statistics.is_old(self._state.now_ms()):
            # Its first message may have come since the last round.
            await sampled(self._state)
            series = self._state.statistics.find(name, key)
        if series is None:
            raise RefusedError(
                f"The stats <{name}> <{key}> not exist", code=ResponseCode.SYSTEM_ERROR
            )
        return request.answer(body=compact(series.to_json()))

    def clean_queues(self, request: Request) -> Command:
        """306: nothing to do: the store removes queue files together with the log's."""
        return request.answer()

    async def clean_topics(self, request: Request) -> Command:
        """316: removes the queues of topics that are not there any more."""
        known = set(self._state.topics.topics)
        stored = {queue.topic for queue in self._state.store.queues()}
        for topic in stored - known:
            if not self._state.topics.is_system(topic):
                await asyncio.to_thread(self._state.store.delete_topic, topic)
        return request.answer()

    async def delete_expired(self, request: Request) -> Command:
        """329: removes log files that are older than they have to be kept."""
        hours = self._state.settings.configuration.value("fileReservedTime")
        kept_ms = int(str(hours)) * _HOUR_MS
        await asyncio.to_thread(
            self._state.store.remove_oldest,
            expired_before_ms=self._state.now_ms() - kept_ms,
            max_files=_REMOVED_MAX,
        )
        return request.answer()
