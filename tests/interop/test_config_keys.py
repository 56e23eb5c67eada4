"""The official releases' own configuration classes show whether our table of keys is whole."""

import subprocess

import pytest

from interop.official import Official
from mqcore.config.keys import SPELLINGS, Key, table_keys

pytestmark = pytest.mark.java

_COMMON = "org.apache.rocketmq.common"
_CLASSES = {
    "BrokerConfig": (f"{_COMMON}.BrokerConfig", ("broker", "auth")),
    "MessageStoreConfig": ("org.apache.rocketmq.store.config.MessageStoreConfig", ("store",)),
    "NettyServerConfig": (
        "org.apache.rocketmq.remoting.netty.NettyServerConfig",
        ("server", "broker"),
    ),
    "NettyClientConfig": ("org.apache.rocketmq.remoting.netty.NettyClientConfig", ("server",)),
    "NamesrvConfig": (f"{_COMMON}.namesrv.NamesrvConfig", ("namesrv",)),
}
_ONLY_5 = {
    "AuthConfig": ("org.apache.rocketmq.auth.config.AuthConfig", ("auth", "broker")),
    "ControllerConfig": (f"{_COMMON}.ControllerConfig", ("controller",)),
    "JraftConfig": (f"{_COMMON}.JraftConfig", ("controller",)),
}
# An object of the class beside it, which has the keys.
_NESTED = frozenset({"jraftConfig"})
_START_TIMEOUT_S = 60.0
# Defaults that depend on the machine, or that the start-up code sets later: our table has words.
_MACHINE = frozenset(
    {
        "brokerIP1", "brokerIP2", "brokerName", "rocketmqHome", "namesrvAddr", "listenPort",
        "storePathRootDir", "storePathCommitLog", "storePathEpochFile", "storePathBrokerIdentity",
        "kvConfigPath", "configStorePath", "sendMessageThreadPoolNums", "socksProxyConfig",
        "controllerStorePath",
        "putMessageFutureThreadPoolNums", "pullMessageThreadPoolNums", "heartbeatThreadPoolNums",
        "litePullMessageThreadPoolNums", "processReplyMessageThreadPoolNums",
        "queryMessageThreadPoolNums", "endTransactionThreadPoolNums",
    }
)  # fmt: skip


def official_keys(official: Official) -> list[tuple[str, str, str]]:
    """Returns class, key and default of every key that the release can be set by."""
    classes = _CLASSES | (_ONLY_5 if official.version.startswith("5") else {})
    names = [name for name, _ in classes.values()]
    done = subprocess.run(
        ["java", "-cp", official._class_path, "mqcore.interop.Keys", *names],
        capture_output=True,
        text=True,
        check=True,
        timeout=_START_TIMEOUT_S,
    )
    rows = [line.split("\t") for line in done.stdout.splitlines() if line.startswith("KEY\t")]
    return [(kind, key, default) for _, kind, key, _, default in rows if key not in _NESTED]


def default_of(key: Key, version: str) -> str | None:
    defaults = {"4.9": key.official_49, "5.3": key.official_53, "5.5": key.official_55}
    return defaults[version[:3]]


def test_every_official_key_is_known_with_its_default(release: Official) -> None:
    classes = _CLASSES | _ONLY_5
    rows = official_keys(release)
    assert len(rows) > 150
    faults = []
    for kind, name, default in rows:
        known = {key.name: key for table in classes[kind][1] for key in table_keys(table)}
        key = known.get(SPELLINGS.get(name, name))
        if key is None:
            faults.append(f"{kind}.{name} is unknown")
        elif default_of(key, release.version) is None:
            faults.append(f"{kind}.{name} is not listed as of {release.version}")
        elif name not in _MACHINE and default not in ("?", "null"):
            found = default_of(key, release.version)
            if found != default.strip():
                faults.append(f"{kind}.{name}: {found!r}, officially {default!r}")
    assert faults == []


def test_no_key_is_listed_as_official_that_is_not(release: Official) -> None:
    theirs = {name for _, name, _ in official_keys(release)}
    # Fields without a setter: listed because people find them in the sources.
    unset = {"timerCheckMetricsWhen", "timerEnableDisruptor", "timerStopDequeue", "timerWarmEnable"}
    # System properties, and keys of start-up code, not of the configuration classes.
    ours = [
        key.name
        for table in ("broker", "store", "server", "auth", "access", "namesrv", "controller")
        for key in table_keys(table)
        if default_of(key, release.version) is not None and not key.name.startswith("tls.")
    ]
    assert sorted(set(ours) - theirs - unset) == []
