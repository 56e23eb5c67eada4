"""What a server is about, in the words of its ready line: its store, and when a send is safe."""

from pathlib import Path

from mqcore.config import BrokerSettings, ControllerSettings, NamesrvSettings
from mqcore.native import is_new_store

__all__ = ["about_broker", "about_controller", "about_namesrv"]


def about_broker(settings: BrokerSettings) -> str:
    """Returns which store a broker opens, and when it acknowledges a send. Call it before a start.

    Args:
        settings: The broker's settings.
    """
    if settings.mounted_dir:
        return f"store {Path(settings.mounted_dir).absolute()}, read only"
    value = settings.configuration.value
    root, log_dir = Path(settings.store_dir), str(value("storePathCommitLog"))
    is_new = is_new_store(root, Path(log_dir) if log_dir else None)
    store = f"{'new store' if is_new else 'store'} {root.absolute()}"
    kind = str(value("flushDiskType"))
    if kind == "SYNC_FLUSH":
        return f"{store}, {kind}: a send is acknowledged once it is on disk"
    interval = value("flushIntervalCommitLog")
    return f"{store}, {kind}: a send is acknowledged in memory, and synced every {interval} ms"


def about_namesrv(settings: NamesrvSettings) -> str:
    """Returns where a name server keeps what it does not hold in memory alone.

    Args:
        settings: The name server's settings.
    """
    return f"routes in memory, KV configuration in {settings.kv_config_path.absolute()}"


def about_controller(settings: ControllerSettings) -> str:
    """Returns where a controller keeps what it decided.

    Args:
        settings: The controller's settings.
    """
    return f"masters and sets in {settings.store_dir.absolute()}"
