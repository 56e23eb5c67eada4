"""Carries the messages of controllers to one another, over the connections of the protocol.

Knows no message: what `ControllerNode` gives goes to its peer, and what the peer answers goes back.
"""

import asyncio
import logging
from concurrent.futures import ThreadPoolExecutor

from mqcore.controller.peers import Peers
from mqcore.errors import MQError
from mqcore.native import ControllerMessage, ControllerNode
from mqcore.remoting import Client, Credentials, OwnRequestCode, ResponseCode, TlsContext

__all__ = ["GROUP_FIELD", "ID_FIELD", "Carrier"]

_log = logging.getLogger(__name__)

# Fields of a message: the group and the id of who sends it.
GROUP_FIELD = "controllerGroup"
ID_FIELD = "controllerId"
# How long the thread sleeps that waits for messages, before it looks whether it is to end.
_WAIT_MS = 200
# A message of the consensus is of no use later: it is sent again.
_TIMEOUT_S = 1.0


class Carrier:
    """The way of one controller to the others."""

    def __init__(
        self,
        node: ControllerNode,
        peers: Peers,
        group: str,
        *,
        tls: TlsContext | None = None,
        credentials: Credentials | None = None,
    ) -> None:
        """Prepares; `start` begins.

        Args:
            node: Whose messages.
            peers: Where the others are.
            group: The group's name, which the others check.
            tls: What protects connections to the others; None for plain ones.
            credentials: What messages are signed with; None for unsigned ones.
        """
        self._node = node
        self._peers = peers
        self._who = {GROUP_FIELD: group, ID_FIELD: peers.self_id}
        self._refused: set[str] = set()
        self._client = Client(tls=tls, credentials=credentials, connect_timeout_s=_TIMEOUT_S)
        # Of its own: it waits all the time.
        self._thread = ThreadPoolExecutor(1, "mq-controllers")
        self._loop: asyncio.Task[None] | None = None
        self._sends: set[asyncio.Task[None]] = set()

    def start(self) -> None:
        """Begins, where there are other controllers."""
        if len(self._peers.addresses) > 1:
            self._loop = asyncio.get_running_loop().create_task(self._run())

    async def stop(self) -> None:
        """Sends nothing more."""
        tasks = [*self._sends, *([self._loop] if self._loop is not None else [])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._client.close()
        await asyncio.to_thread(self._thread.shutdown)

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            found = await loop.run_in_executor(self._thread, self._node.outgoing, _WAIT_MS)
            for message in found:
                task = loop.create_task(self._send(message))
                self._sends.add(task)
                task.add_done_callback(self._sends.discard)

    async def _send(self, message: ControllerMessage) -> None:
        response = None
        _, address = self._peers.numbered(message.peer)
        try:
            code = OwnRequestCode.CONTROLLER_MESSAGE
            answer = await self._client.call(
                address, code, self._who, message.content, timeout_s=_TIMEOUT_S
            )
            if answer.code == ResponseCode.SUCCESS:
                response = answer.body
                self._refused.discard(address)
            elif address not in self._refused:
                self._refused.add(address)
                _log.warning("controller %s refuses our messages: %s", address, answer.remark)
        except MQError as error:
            _log.debug("controller %s does not answer: %s", address, error)
        self._node.deliver(message.ticket, response)
