"""Opens the ports of health and figures of a broker, and pushes figures, as its settings want it.

What they show is elsewhere; a broker without them holds nothing of HTTP and Prometheus.
"""

from collections.abc import Awaitable, Callable

from mqcore.broker.state import BrokerState

__all__ = ["observed"]

# Figures are for this machine unless the settings give others.
_METRICS_HOST = "127.0.0.1"
# Notes how what was started is ended, by a stop and by a kill.
_EndsWith = Callable[[Callable[[], Awaitable[None]], Callable[[], Awaitable[None]]], None]


async def observed(
    state: BrokerState, registered: Callable[[], frozenset[str]], ends_with: _EndsWith
) -> dict[str, int]:
    """Opens the ports; returns those that were chosen, by name.

    Args:
        state: The broker.
        registered: Returns the name servers that know it.
        ends_with: Is given what closes each.

    Raises:
        AddressError: One cannot be listened on.
        ConfigurationError: Figures are to be pushed, and OpenTelemetry is not installed.
    """
    settings, ports = state.settings, dict[str, int]()
    if settings.listener.health_address:
        from mqcore.broker.health import live_checks, ready_checks
        from mqcore.remoting.health import serving_health

        checks = live_checks(state), ready_checks(state, registered)
        health, ports["health"] = await serving_health(settings.listener.health_address, *checks)
        ends_with(health.stop, health.stop)
    if settings.has_metrics:
        from mqcore.broker.observation import pages
        from mqcore.remoting.observatory import Observatory

        observatory = Observatory(pages(state, registered))
        ends_with(observatory.stop, observatory.stop)
        host = settings.metrics_host or _METRICS_HOST
        ports["metrics"] = await observatory.start(host, settings.metrics_port)
    if settings.pushes_metrics:
        from mqcore.broker.metric_families import METER
        from mqcore.broker.observation import snapshot
        from mqcore.metrics.page import rest
        from mqcore.metrics.pushing import pusher

        pushing = pusher(settings.pushing, METER, state.boot_ms, lambda: snapshot(state), rest)
        if pushing is not None:
            pushing.start()
            ends_with(pushing.stop, pushing.kill)
    return ports
