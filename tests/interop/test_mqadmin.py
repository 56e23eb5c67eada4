"""Apache's mqadmin, of 4.9 and 5.3, prints of our servers what it prints of the official ones.

The same commands run at both; each command's output is compared but for figures.
"""

import subprocess
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import pytest

from interop.cases import Case
from interop.driver import Driver, write_tools_settings
from interop.mqadmin import COMMANDS, SampleCluster, keys, shape
from interop.official import NEWEST, official_release
from interop.processes import environment
from interop.servers import OURS, Servers, official_software, serving

pytestmark = pytest.mark.java

# Of a JVM on a busy machine.
PROCESS_TIMEOUT_S = 90.0
# Compared by rules of their own, below.
TABLES = {
    "brokerStatus": ":",
    "getBrokerConfig": "=",
    "getBrokerConfig -c": "=",
    "getNamesrvConfig": "=",
}
APART = {*TABLES, "brokerStatus -c", "topicList", "topicList -c", "getBrokerEpoch"}
# Topics that a broker makes for itself differ between 4.9 and 5.3, and so between 4.9 and us: both
# topics of transactions are there from the start.
OF_A_BROKER = ("rmq_sys_", "RMQ_SYS_TRANS", "RMQ_SYS_ROCKSDB_TRANS")
# Names with the path of the log; the setters of flags that Java's properties show under a second
# name.
OF_JAVA = (
    "commitLogDiskRatio_",
    "isBrokerContainer",
    "isEnableBatchPush",
    "isInBrokerContainer",
    "isScanAvailableNameSrv",
)


@dataclass(frozen=True, slots=True)
class Printed:
    """What each command printed of ours and of the official servers, by label."""

    ours: dict[str, str]
    official: dict[str, str]


@pytest.fixture(
    scope="module",
    params=[
        pytest.param("4.9.7", marks=pytest.mark.matrix),
        "5.3.3",
        pytest.param(NEWEST, marks=pytest.mark.matrix),
    ],
)
def driver(request: pytest.FixtureRequest) -> Driver:
    """Returns one JVM with mqadmin."""
    name = {"4.9.7": "driver_49", "5.3.3": "driver_53", NEWEST: "driver_55"}[request.param]
    driver: Driver = request.getfixturevalue(name)
    return driver


@pytest.fixture(scope="module")
def printed(driver: Driver, tmp_path_factory: pytest.TempPathFactory) -> Printed:
    root = tmp_path_factory.mktemp("mqadmin")
    with (
        serving(OURS, root / "ours") as ours,
        serving(official_software(driver.version), root / "official") as official,
        closing(SampleCluster(driver, ours, 1, exports=root / "files")) as sample,
        closing(SampleCluster(driver, official, 2, exports=root / "files")) as official_sample,
    ):
        return Printed(sample.outputs(), official_sample.outputs())


# What these print depends on how far a running consumer is at that moment.
OF_THE_MOMENT = {
    "consumerProgress -g",
    "consumerProgress -g -s",
    "consumeMessage",
    "queryMsgByUniqueKey",
    "statsAll",
}


@pytest.mark.parametrize(
    "label",
    [
        pytest.param(each.label, marks=[pytest.mark.matrix] * (each.label in OF_THE_MOMENT))
        for each in COMMANDS
        if each.label not in APART
    ],
)
def test_a_command_prints_the_same(printed: Printed, label: str) -> None:
    assert shape(printed.ours[label]) == shape(printed.official[label])


@pytest.mark.parametrize("label", TABLES)
def test_a_table_names_everything(printed: Printed, label: str) -> None:
    ours, official = (
        keys(table[label], TABLES[label]) for table in (printed.ours, printed.official)
    )
    missing = {name for name in official - ours if not any(part in name for part in OF_JAVA)}
    assert len(ours) > 20
    assert missing == set()


def test_the_status_of_a_cluster_is_that_of_its_broker(printed: Printed) -> None:
    alone, all_of_them = (printed.ours[name] for name in ("brokerStatus", "brokerStatus -c"))
    assert keys(all_of_them, " : ") == keys(alone, " : ")


@pytest.mark.parametrize("label", ["topicList", "topicList -c"])
def test_the_same_topics_are_listed(printed: Printed, label: str) -> None:
    # Cluster and topic; the third column is of the group that mqadmin of 5.3 gets wrong.
    ours, official = (
        {
            " ".join(line.split()[:2])
            for line in shape(table[label])
            if not any(part in line for part in OF_A_BROKER)
        }
        for table in (printed.ours, printed.official)
    )
    assert ours == official
    assert any("TopicMadeToo" in line for line in ours)


def test_there_is_no_epoch_without_a_controller(printed: Printed) -> None:
    # 4.9 does not know the command, 5.3 refuses it: outside of the controller mode it cannot apply.
    for table in (printed.ours, printed.official):
        text = table["getBrokerEpoch"]
        assert "command failed" in text or "not exist" in text


def test_a_process_of_its_own_prints_what_the_driver_prints(
    driver: Driver, servers: Servers, tmp_path: Path
) -> None:
    """All other commands of these tests run one after another in the JVM of the driver."""
    case = Case(driver, servers, "mqadmin_process")
    case.create()
    line = ("topicRoute", "-t", case.topic, "-n", case.namesrv)
    write_tools_settings(tmp_path)
    main = "org.apache.rocketmq.tools.command.MQAdminStartup"
    done = subprocess.run(
        official_release(driver.version).java(main, tmp_path, *line),
        env={**environment(), "ROCKETMQ_HOME": str(tmp_path)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
        timeout=PROCESS_TIMEOUT_S,
    )
    # What logback prints of its own start is in between.
    printed = [each for each in done.stdout.splitlines() if " |-" not in each]
    assert any("brokerDatas" in each for each in printed)
    assert shape("\n".join(printed)) == shape(driver.mqadmin(*line))
