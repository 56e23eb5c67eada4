"""Users and what they may, synchronously: the methods of `mqcore.admin.access`."""

from collections.abc import Iterable

from mqcore.admin import access as asynchronous
from mqcore.admin.access import AccessDecision, AccessEntry, AccessUser
from mqcore.client.blocking.loop_thread import LoopThread

__all__ = ["Access"]


class Access:
    """Users and their policies. An address is `host:port` of a broker."""

    def __init__(self, thread: LoopThread, core: asynchronous.Access) -> None:
        """Takes the loop, and the asyncio methods under it."""
        self._thread = thread
        self._core = core

    def everywhere(self, cluster: str | None = None) -> list[str]:
        """Returns whom a change has to reach: all brokers of one cluster or all, masters first.

        Raises:
            NameServerError: No name server answers.
        """
        return self._thread.run(lambda: self._core.everywhere(cluster))

    def users(self, address: str) -> list[AccessUser]:
        """Returns the users of a broker, by name (3005).

        Raises:
            ResponseError: It refused, or has no access control of 5.3.
        """
        return self._thread.run(lambda: self._core.users(address))

    def entries(self, address: str) -> list[AccessEntry]:
        """Returns what all users are allowed and denied at a broker (3010).

        Raises:
            ResponseError: It refused, or has no access control of 5.3.
        """
        return self._thread.run(lambda: self._core.entries(address))

    def create_user(self, address: str, name: str, secret: str, *, kind: str = "Normal") -> None:
        """Makes a user (3001).

        Args:
            address: The broker.
            name: The name, which is the access key of clients.
            secret: The secret key of clients.
            kind: `Super` or `Normal`; a Super user alone makes another one.

        Raises:
            ResponseError: It is there already, or the broker refused.
        """
        self._thread.run(lambda: self._core.create_user(address, name, secret, kind=kind))

    def change_user(
        self, address: str, name: str, *, secret: str = "", kind: str = "", status: str = ""
    ) -> None:
        """Changes a user; what is empty stays (3002).

        Args:
            address: The broker.
            name: The name.
            secret: The new secret.
            kind: `Super` or `Normal`.
            status: `enable` or `disable`.

        Raises:
            ResponseError: There is no such user, or the broker refused.
        """
        self._thread.run(
            lambda: self._core.change_user(address, name, secret=secret, kind=kind, status=status)
        )

    def delete_user(self, address: str, name: str) -> None:
        """Deletes a user with its policies; one that is not there is no error (3003).

        Raises:
            ResponseError: The broker refused.
        """
        self._thread.run(lambda: self._core.delete_user(address, name))

    def grant(
        self,
        address: str,
        user: str,
        actions: Iterable[str],
        resources: Iterable[str],
        *,
        sources: Iterable[str] = (),
        is_denied: bool = False,
        is_default: bool = False,
    ) -> None:
        """Lets a user do something; an entry of the same resource is replaced as a whole (3006).

        Args:
            address: The broker.
            user: The user.
            actions: Such as `Pub`, `Sub`, `Get`.
            resources: Such as `Topic:orders*`.
            sources: Addresses or networks that it is for; none for all.
            is_denied: Whether it is denied instead.
            is_default: Whether it counts only where no other entry matches.

        Raises:
            UsageError: An action or a resource is none.
            ResponseError: There is no such user, or the broker refused.
        """
        self._thread.run(
            lambda: self._core.grant(
                address,
                user,
                actions,
                resources,
                sources=sources,
                is_denied=is_denied,
                is_default=is_default,
            )
        )

    def revoke(self, address: str, user: str, resource: str, *, is_default: bool = False) -> None:
        """Takes the entry of a resource from a user (3008).

        Args:
            address: The broker.
            user: The user.
            resource: Such as `Topic:orders*`.
            is_default: Whether it is an entry of the default policy.

        Raises:
            UsageError: The resource is none.
            ResponseError: The user has no policies, or the broker refused.
        """
        self._thread.run(lambda: self._core.revoke(address, user, resource, is_default=is_default))

    def decision(
        self, address: str, user: str, action: str, resource: str, *, source: str = ""
    ) -> AccessDecision:
        """Returns whether a user may do something, and why; a broker of mqcore answers it.

        Args:
            address: The broker.
            user: The user.
            action: Such as `Pub`.
            resource: Such as `Topic:orders`.
            source: From which address; from ours where it is empty.

        Raises:
            UsageError: Action or resource is none.
            ResponseError: It refused, or is official.
        """
        return self._thread.run(
            lambda: self._core.decision(address, user, action, resource, source=source)
        )
