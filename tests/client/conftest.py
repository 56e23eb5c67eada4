"""One running cluster for the tests of a module that only send to it."""

from collections.abc import Iterator

import pytest

from client.serving import Cluster, serving


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A name server and a broker that serve."""
    with serving(tmp_path_factory.mktemp("store")) as running:
        yield running
