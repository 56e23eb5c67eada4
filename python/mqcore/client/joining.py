"""The options of producers and consumers that are no settings: their client, hooks, trace."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar

from mqcore.client.client_settings import Identity
from mqcore.client.consume_hooks import ConsumeHook
from mqcore.client.faults import FaultStrategy
from mqcore.client.hooks import SendHook
from mqcore.client.instance import Instance
from mqcore.client.member import RebalanceListener
from mqcore.client.option import declared, option, unknown_option
from mqcore.client.options import KINDS
from mqcore.clock import monotonic_ms
from mqcore.errors import UsageError

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

__all__ = ["ConsumerJoin", "Join", "ProducerJoin", "taken"]

_JoinT = TypeVar("_JoinT")
_SettingsT = TypeVar("_SettingsT", bound="DataclassInstance")


@dataclass(frozen=True, slots=True, kw_only=True)
class Join(Identity):
    """What producers and consumers are given beside their settings.

    Attributes:
        instance: The client that it belongs to; one of its own when not given.
        trace: Whether sends, or deliveries, are noted in the message trace.
        spans: Whether each is a span of OpenTelemetry, whose context goes with the message; needs
            `mqcore[otel]`.
    """

    instance: Instance | None = option(None, is_checked=False, change="never: `Client` sets it")
    trace: bool = option(False, change="`mqadmin` and `mqcore trace` are to find messages")
    spans: bool = option(False, change="you use OpenTelemetry")

    def own_or(self, namesrv: str | Sequence[str] | None) -> Instance:
        """Returns the client that it belongs to, or one of its own.

        Raises:
            AddressError: A name server's address is none.
        """
        return self.instance or Instance(
            namesrv, credentials=self.credentials, namespace=self.namespace, tls=self.tls
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerJoin(Join):
    """What a producer is given beside its settings.

    Attributes:
        hooks: Hear of every try.
        faults: Leaves slow and failing brokers alone for a while; off when not given.
    """

    hooks: Sequence[SendHook] = option((), change="code of yours is to see every try")
    faults: FaultStrategy | None = option(None, change="several brokers, of which some get slow")


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerJoin(Join):
    """What a consumer is given beside its settings.

    Attributes:
        hooks: Hear of every call of the handler, or of every poll.
        on_rebalance: Called when our queues of a topic change: topic, our queues, all queues.
        now_ms: A monotonic time; the machine's when not given.
    """

    hooks: Sequence[ConsumeHook] = option((), change="code of yours is to see every call")
    on_rebalance: RebalanceListener | None = option(
        None, change="state of yours belongs to the queues that you have"
    )
    now_ms: Callable[[], int] = option(
        monotonic_ms, unit="ms", change="never, but in tests", shown="mqcore.clock.monotonic_ms"
    )


def taken(
    options: Mapping[str, Any], who: str, join: type[_JoinT], settings: _SettingsT
) -> tuple[_JoinT, _SettingsT]:
    """Returns what a constructor was given, of its `**options`: what is no setting, and settings.

    Args:
        options: Values by name.
        who: Whose options they are, as `options.KINDS` has it.
        join: Declares the options that are no settings.
        settings: The settings that options change.

    Raises:
        UsageError: There is no such option, or a value cannot work.
    """
    joining, changes = declared(join), declared(type(settings))
    for name in options:
        if name not in joining and name not in changes:
            raise _unknown(name, who)
    return (
        join(**{name: value for name, value in options.items() if name in joining}),
        replace(settings, **{name: each for name, each in options.items() if name in changes}),
    )


def _unknown(name: str, who: str) -> UsageError:
    others = [other for other, names in KINDS.items() if name in names]
    hint = f": it is one of {' and '.join(others)}" if others else ""
    return unknown_option(name, who, KINDS[who], hint)
