"""The files that keep the id of a broker at its controller."""

from pathlib import Path

import pytest

from mqcore.broker.replication.identity import Candidate, Identity, IdentityFiles
from mqcore.errors import ConfigurationError

IDENTITY = Identity("DefaultCluster", "broker-a", 2)
CANDIDATE = Candidate(IDENTITY, "127.0.0.1:10911;1700000000000")


def files_in(directory: Path, *, cluster: str = "DefaultCluster") -> IdentityFiles:
    return IdentityFiles(directory / "brokerIdentity", cluster=cluster, name="broker-a")


def test_the_files_are_those_of_rocketmq(tmp_path: Path) -> None:
    files = files_in(tmp_path)
    files.keep_candidate(CANDIDATE)
    text = (tmp_path / "brokerIdentity-temp").read_text()
    assert text == "DefaultCluster#broker-a#2#127.0.0.1:10911;1700000000000"
    assert (files.identity(), files.candidate()) == (None, CANDIDATE)
    files.keep(IDENTITY)
    assert (tmp_path / "brokerIdentity").read_text() == "DefaultCluster#broker-a#2"
    assert (files.identity(), files.candidate()) == (IDENTITY, None)


def test_an_application_that_was_given_up_is_gone(tmp_path: Path) -> None:
    files = files_in(tmp_path)
    files.keep_candidate(CANDIDATE)
    files.keep_candidate(CANDIDATE)
    files.forget_candidate()
    files.forget_candidate()
    assert files.candidate() is None
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("text", ["", "DefaultCluster#broker-a#2", "a#b", "x#y#z#w"])
def test_a_torn_application_is_as_none(text: str, tmp_path: Path) -> None:
    (tmp_path / "brokerIdentity-temp").write_text(text)
    assert files_in(tmp_path).candidate() is None


def test_a_store_of_another_cluster_is_refused(tmp_path: Path) -> None:
    files_in(tmp_path).keep(IDENTITY)
    files_in(tmp_path).keep_candidate(CANDIDATE)
    other = files_in(tmp_path, cluster="other")
    for read in (other.identity, other.candidate):
        with pytest.raises(ConfigurationError, match="is of cluster DefaultCluster"):
            read()


@pytest.mark.parametrize("text", ["nonsense", "a#b#c", "a#b#1#2", "x" * 5_000])
def test_an_identity_that_cannot_be_read_is_refused(text: str, tmp_path: Path) -> None:
    (tmp_path / "brokerIdentity").write_text(text)
    with pytest.raises(ConfigurationError, match="brokerIdentity"):
        files_in(tmp_path).identity()


def test_the_last_processes_are_kept_beside_the_id(tmp_path: Path) -> None:
    files = files_in(tmp_path)
    assert files.processes() == ()
    for number in range(10):
        files.keep_process(f"host:1;{number};ab")
    assert files.processes() == tuple(f"host:1;{number};ab" for number in range(2, 10))
    (tmp_path / "brokerIdentity-processes").write_bytes(b"\0\0\nhost:1;9;ab\n")
    assert files.processes() == ("host:1;9;ab",)
