"""Users and policies, synchronously: the methods of `mqcore.admin.access`, on the loop's thread."""

from collections.abc import Iterable

from mqcore.access import Acl, Entry, Resource, User
from mqcore.admin import access as asynchronous
from mqcore.admin.access import AccessDecision
from mqcore.client.blocking.loop_thread import LoopThread

__all__ = ["Access"]


class Access:
    """The users of a cluster, and their policies. An address is `host:port`.

    A change goes to the masters, which pass it on to their slaves; `brokers` or `cluster` name
    fewer of them.
    """

    def __init__(self, thread: LoopThread, core: asynchronous.Access) -> None:
        """Takes the loop, and the asyncio methods under it."""
        self._thread = thread
        self._core = core

    def users_at(self, address: str, name_part: str = "") -> list[User]:
        """Returns the users of one broker whose name has a part, in the order of names (3005).

        Their secrets are empty for whoever is no Super user.
        """
        return self._thread.run(lambda: self._core.users_at(address, name_part))

    def user_at(self, address: str, name: str) -> User | None:
        """Returns one user of one broker (3004); None where there is none of the name."""
        return self._thread.run(lambda: self._core.user_at(address, name))

    def policies_at(self, address: str, user: str) -> Acl | None:
        """Returns what a user may at one broker (3009); None where it has no policies.

        Raises:
            ResponseError: There is no such user.
        """
        return self._thread.run(lambda: self._core.policies_at(address, user))

    def all_policies_at(
        self, address: str, *, subject_part: str = "", resource_part: str = ""
    ) -> list[Acl]:
        """Returns what users may at one broker (3010).

        Args:
            address: The broker.
            subject_part: What the subject, `User:NAME`, has in it.
            resource_part: What the resources, as `Topic:orders`, have in them: only those entries
                are returned.
        """
        return self._thread.run(
            lambda: self._core.all_policies_at(
                address, subject_part=subject_part, resource_part=resource_part
            )
        )

    def decision(
        self, address: str, user: str, action: str, resource: Resource, *, source: str = ""
    ) -> AccessDecision:
        """Returns whether a user may do something, and why; a broker of mqcore answers it.

        Args:
            address: The broker.
            user: The user.
            action: Such as `Pub`.
            resource: Such as `Topic:orders`.
            source: From which address; from ours where it is empty.

        Raises:
            UsageError: The action is none.
            ResponseError: It refused, or is official.
        """
        return self._thread.run(
            lambda: self._core.decision(address, user, action, resource, source=source)
        )

    def create_user(
        self, user: User, *, brokers: Iterable[str] = (), cluster: str | None = None
    ) -> list[str]:
        """Makes a user (3001).

        Args:
            user: Its name and secret; of no kind and status it is Normal and enabled.
            brokers: Addresses; without them all masters.
            cluster: Only the masters of this cluster.

        Returns:
            The addresses of the brokers that have it now.

        Raises:
            ResponseError: A broker refuses it: it is there already.
            UsageError: An argument cannot work; nothing was sent.
        """
        return self._thread.run(
            lambda: self._core.create_user(user, brokers=brokers, cluster=cluster)
        )

    def change_user(
        self, user: User, *, brokers: Iterable[str] = (), cluster: str | None = None
    ) -> list[str]:
        """Changes secret, kind or status of a user; what is empty stays (3002).

        Args:
            user: Its name, and what changes.
            brokers: Addresses; without them all masters.
            cluster: Only the masters of this cluster.

        Returns:
            The addresses of the brokers that have changed it.

        Raises:
            ResponseError: A broker refuses it: there is no such user.
            UsageError: An argument cannot work; nothing was sent.
        """
        return self._thread.run(
            lambda: self._core.change_user(user, brokers=brokers, cluster=cluster)
        )

    def delete_user(
        self, name: str, *, brokers: Iterable[str] = (), cluster: str | None = None
    ) -> list[str]:
        """Deletes a user with its policies; one that is not there is deleted already (3003).

        Returns:
            The addresses of the brokers that have it no more.

        Raises:
            ResponseError: A broker refuses it.
            UsageError: An argument cannot work; nothing was sent.
        """
        return self._thread.run(
            lambda: self._core.delete_user(name, brokers=brokers, cluster=cluster)
        )

    def grant(
        self,
        user: str,
        *entries: Entry,
        is_default: bool = False,
        brokers: Iterable[str] = (),
        cluster: str | None = None,
    ) -> list[str]:
        """Gives a user entries; one of a resource that has one replaces that whole (3007).

        Args:
            user: Its name.
            entries: What is allowed or denied, each on one resource.
            is_default: Whether they count only where no other entry matches.
            brokers: Addresses; without them all masters.
            cluster: Only the masters of this cluster.

        Returns:
            The addresses of the brokers that have them now.

        Raises:
            ResponseError: A broker refuses it: there is no such user.
            UsageError: An argument cannot work; nothing was sent.
        """
        return self._thread.run(
            lambda: self._core.grant(
                user, *entries, is_default=is_default, brokers=brokers, cluster=cluster
            )
        )

    def revoke(
        self,
        user: str,
        resource: Resource | None = None,
        *,
        is_default: bool = False,
        brokers: Iterable[str] = (),
        cluster: str | None = None,
    ) -> list[str]:
        """Takes a user's entry of a resource away, or all of its policies (3008).

        Args:
            user: Its name.
            resource: What the entry is about; None for all policies.
            is_default: Whether it is an entry that counts only where no other one matches.
            brokers: Addresses; without them all masters.
            cluster: Only the masters of this cluster.

        Returns:
            The addresses of the brokers that have it no more.

        Raises:
            ResponseError: A broker refuses it: there is no such user, or it has no policies.
            UsageError: An argument cannot work; nothing was sent.
        """
        return self._thread.run(
            lambda: self._core.revoke(
                user, resource, is_default=is_default, brokers=brokers, cluster=cluster
            )
        )
