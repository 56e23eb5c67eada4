"""What clients ask of a broker that was the master: parked while it hands over, then passed on.

A client keeps its route for half a minute. Meanwhile whoever was master takes its requests for the
one that is, asks it, and answers with its response. Nothing is stored here, so that nothing can be
stored twice by it. Knows no role and no election: who hands over names the master.
"""

import asyncio
import logging
from collections.abc import Awaitable
from typing import Final

from mqcore.broker import policy
from mqcore.broker.state import BrokerState
from mqcore.errors import (
    CallTimeoutError,
    ConnectError,
    MQError,
    RefusedError,
    RemotingError,
    TooBusyError,
)
from mqcore.model.reading import as_int
from mqcore.model.relaxed_json import parse_object
from mqcore.native import Command, FastPathProtocol
from mqcore.remoting import (
    Answer,
    Client,
    Dispatcher,
    Handler,
    Link,
    OwnRequestCode,
    Request,
    RequestCode,
    ResponseCode,
    expect,
)

__all__ = ["OF_THE_MASTER", "PassingOn"]

_log = logging.getLogger("mqcore.broker")

# Requests that wait, or are with the master, at the most: beyond it clients are asked to try again.
WAITING_MAX: Final = 65_536
# The same in bytes of bodies: some of the largest frames.
WAITING_BYTES_MAX: Final = 128 << 20
# A master answers a send that waits for its slaves within `slaveTimeout`, 3 s officially.
_TIMEOUT_S: Final = 5.0
# An elected broker is master within a second; this is for a busy machine.
_MASTER_S: Final = 3.0
# Between two tries at a master that was just elected.
_AGAIN_S: Final = 0.02
_MS_PER_S: Final = 1_000

# What a slave has from its master alone (`AdminBrokerProcessor.validateSlave`).
OF_THE_MASTER: Final = frozenset(
    {
        RequestCode.UPDATE_AND_CREATE_TOPIC,
        RequestCode.UPDATE_AND_CREATE_TOPIC_LIST,
        RequestCode.UPDATE_AND_CREATE_STATIC_TOPIC,
        RequestCode.DELETE_TOPIC_IN_BROKER,
        RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP,
        RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST,
        RequestCode.DELETE_SUBSCRIPTIONGROUP,
        RequestCode.INVOKE_BROKER_TO_RESET_OFFSET,
        RequestCode.SET_MESSAGE_REQUEST_MODE,
    }
)
# Of the fast path, and of Python: what the master alone decides.
PASSED_ON: Final = OF_THE_MASTER | frozenset(
    {
        RequestCode.SEND_MESSAGE,
        RequestCode.SEND_MESSAGE_V2,
        RequestCode.SEND_BATCH_MESSAGE,
        RequestCode.CONSUMER_SEND_MSG_BACK,
        RequestCode.END_TRANSACTION,
        RequestCode.RECALL_MESSAGE,
        RequestCode.QUERY_CONSUMER_OFFSET,
        RequestCode.UPDATE_CONSUMER_OFFSET,
        RequestCode.POP_MESSAGE,
        RequestCode.ACK_MESSAGE,
        RequestCode.BATCH_ACK_MESSAGE,
        RequestCode.CHANGE_MESSAGE_INVISIBLETIME,
        RequestCode.LOCK_BATCH_MQ,
        RequestCode.UNLOCK_BATCH_MQ,
    }
)
# What a broker answers that does not take such requests yet, whatever its release: the same request
# may be taken in a moment, and nothing was done.
_NOT_YET: Final = frozenset({ResponseCode.SERVICE_NOT_AVAILABLE, ResponseCode.SYSTEM_BUSY})
_TOO_FEW: Final = "in-sync replicas not enough"
# The field that names the client of a request that is passed on (`rust/fast_path/src/requests.rs`).
_BORN_HOST: Final = "mqcoreBornHost"


class PassingOn:
    """Requests for the master, while another broker is that or soon is.

    Attributes:
        passed: How many were passed on.
        unknown: How many had no answer: the master may have done what they ask.
        last_s: When the last one came, by the loop's clock.
    """

    def __init__(self, state: BrokerState) -> None:
        """Takes the broker; nothing is passed on until `park`."""
        self._state = state
        self._client = Client(
            tls=state.outgoing_tls, credentials=state.credentials, version=state.version
        )
        self._changed = asyncio.Event()
        self._elected = ""
        self._address = ""
        self._waiting = 0
        self._waiting_bytes = 0
        # The connection on which the master was asked whether it takes names, and its answer.
        self._greeted: Link | None = None
        self._may_name = False
        self._greeting = asyncio.Lock()
        self.passed = 0
        self.unknown = 0
        self.last_s = 0.0

    async def stop(self) -> None:
        """Closes the connections to the master; who waits is refused."""
        self.end()
        await self._client.close()

    @property
    def waiting(self) -> int:
        """Requests that wait, or are with the master."""
        return self._waiting

    def park(self) -> None:
        """Lets requests for the master wait from now on; who waits for messages is let go."""
        self._address = ""
        self._changed.clear()
        self._state.passes_on = True
        policy.fill_broker(self._state)

    async def open_to(self, address: str) -> None:
        """Passes on what waits, and what comes, to a broker that is elected, once it is master.

        Where it is not within a time requests try it all the same: each is tried again for as long
        as it may wait.
        """
        self._elected = address
        loop = asyncio.get_running_loop()
        end_s = loop.time() + _MASTER_S
        while not await self._leads(address):
            if loop.time() >= end_s:
                _log.warning("%s was elected, and is no master that takes messages yet", address)
                break
            await asyncio.sleep(_AGAIN_S)
        # Another one may have been elected since.
        if self._state.passes_on and self._elected == address:
            self._address = address
            self._changed.set()

    async def _leads(self, address: str) -> bool:
        """Returns whether a broker is master, with as many in sync as a send needs."""
        try:
            code = RequestCode.GET_BROKER_HA_STATUS
            answer = await self._client.call(address, code, timeout_s=_TIMEOUT_S)
            status = parse_object(expect(answer, address).body)
        except MQError:
            return False
        in_sync = 1 + as_int(status.get("inSyncSlaveNums"))
        return status.get("master") is True and in_sync >= self._in_sync_min

    @property
    def _in_sync_min(self) -> int:
        return self._state.settings.replication_in_sync_min

    def end(self) -> None:
        """Passes on no more: what waits, and what comes, is executed here.

        A slave refuses it: clients that have not looked for the master by then do so.
        """
        self._address = ""
        if self._state.passes_on:
            self._state.passes_on = False
            policy.fill_broker(self._state)
        self._changed.set()

    def join(self, dispatcher: Dispatcher) -> None:
        """Comes before the handlers of requests for the master; those of the fast path have none.

        The fast path hands these over while they are for another broker, and only then.
        """
        for code in PASSED_ON:
            dispatcher.on(code, self._before(dispatcher.find(code)))

    def _before(self, handler: Handler | None) -> Handler:
        def serve(request: Request) -> Answer | Awaitable[Answer]:
            if handler is not None and not self._state.passes_on:
                return handler(request)
            return self._serve(request, handler)

        return serve

    async def _serve(self, request: Request, handler: Handler | None) -> Answer:
        size = len(request.body)
        if self._waiting >= WAITING_MAX or self._waiting_bytes + size > WAITING_BYTES_MAX:
            raise RefusedError(
                f"the role of the master is handed over, and {self._waiting} requests wait",
                code=ResponseCode.SERVICE_NOT_AVAILABLE,
            )
        self._waiting += 1
        self._waiting_bytes += size
        self.last_s = asyncio.get_running_loop().time()
        try:
            answered = await self._passed(request)
        finally:
            self._waiting -= 1
            self._waiting_bytes -= size
        if answered is not None:
            return answered if not request.command.is_oneway else None
        if handler is None:
            connection = request.link.stream
            # None of a connection that has ended meanwhile.
            if isinstance(connection, FastPathProtocol):
                connection.execute(request.command)
            return None
        done = handler(request)
        return await done if isinstance(done, Awaitable) else done

    async def _passed(self, request: Request) -> Command | None:
        """Returns what the master answers; None where the request is to be executed here."""
        loop = asyncio.get_running_loop()
        end_s = loop.time() + self._state.settings.hand_over_park_ms / _MS_PER_S
        why = "nobody is master yet"
        while loop.time() < end_s:
            await self._until_open(end_s)
            if not self._state.passes_on:
                return None
            if not self._address:
                continue
            try:
                answer = await self._asked(self._address, request)
            except (ConnectError, TooBusyError) as error:
                # Nothing was sent.
                why = error.message
            except RemotingError as error:
                # The master may have done it: the client knows whether twice is once too many.
                why = error.message
                self.unknown += 1
                break
            else:
                if not _is_not_yet(answer):
                    self.passed += 1
                    return request.answer(
                        answer.code, answer.remark, ext=answer.ext, body=answer.body
                    )
                why = f"{self._address} answered {answer.code}: {answer.remark}"
            await asyncio.sleep(_AGAIN_S)
        raise RefusedError(
            f"the role of the master was handed over: {why}",
            code=ResponseCode.SERVICE_NOT_AVAILABLE,
        )

    async def _until_open(self, end_s: float) -> None:
        try:
            async with asyncio.timeout_at(end_s):
                await self._changed.wait()
        except TimeoutError:
            return

    async def _asked(self, address: str, request: Request) -> Command:
        ext, timeout_s = dict(request.ext), _TIMEOUT_S
        # What a client has signed stays as it is, where no signature of ours replaces its own.
        is_ours = self._state.credentials is not None or not request.ext.get("Signature")
        if is_ours and await self._names_clients(address):
            # Messages are born where their client is.
            ext[_BORN_HOST] = request.link.peer
        if request.command.is_oneway:
            await self._client.oneway(address, request.code, ext, request.body, timeout_s=timeout_s)
            return request.answer()
        if request.code == RequestCode.POP_MESSAGE:
            # It is held there as long as its client asks.
            timeout_s += max(0, request.integer("pollTime", 0)) / _MS_PER_S
        try:
            return await self._client.call(
                address, request.code, ext, request.body, timeout_s=timeout_s
            )
        except CallTimeoutError as error:
            if request.code == RequestCode.POP_MESSAGE:
                return request.answer(ResponseCode.POLLING_TIMEOUT, error.message)
            raise

    async def _names_clients(self, address: str) -> bool:
        """Returns whether the master takes the names of clients on the connection that is open.

        One of RocketMQ does not; one of mqcore takes them from a member of its group.
        """
        link = self._client.open_link(address)
        if link is not None and link is self._greeted:
            return self._may_name
        async with self._greeting:
            link = self._client.open_link(address)
            if link is None or link is not self._greeted:
                self._may_name = False
                try:
                    answer = await self._client.call(
                        address, OwnRequestCode.PASS_ON, timeout_s=_TIMEOUT_S
                    )
                except RemotingError:
                    # Whoever asks next finds out why.
                    return False
                self._may_name = answer.code == ResponseCode.SUCCESS
                self._greeted = self._client.open_link(address)
            return self._may_name


def _is_not_yet(answer: Command) -> bool:
    """Returns whether a broker has done nothing, and may do it in a moment."""
    if answer.code == ResponseCode.SYSTEM_ERROR:
        return _TOO_FEW in (answer.remark or "")
    return answer.code in _NOT_YET
