"""Which texts mean a path of this machine, and which a URL."""

from pathlib import Path

import pytest

from mqcore.spark.locations import Location


@pytest.mark.parametrize(
    ("text", "scheme", "path"),
    [
        ("/data/store", "file", "/data/store"),
        ("relative/store-*", "file", "relative/store-*"),
        (Path("/data/store"), "file", "/data/store"),
        ("file:///data/store", "file", "/data/store"),
        ("file:/data/store", "file", "/data/store"),
        ("a:b", "file", "a:b"),
        ("s3://bucket/a%20b", "s3", "bucket/a%20b"),
        ("hdfs://name:9000/a", "hdfs", "name:9000/a"),
        ("memory://root", "memory", "root"),
        ("/a://b", "file", "/a://b"),
    ],
)
def test_a_text_means_one_location(text: str | Path, scheme: str, path: str) -> None:
    found = Location.of(text)
    assert (found.scheme, found.path) == (scheme, path)
    assert found.is_local == (scheme == "file")
    assert Location.of(found.url) == found


def test_another_path_has_the_same_scheme() -> None:
    assert Location.of("s3://b/store-*").at("b/store-1").url == "s3://b/store-1"
    assert Location.of("/store-*").at("/store-1") == Location.of("/store-1")


def test_an_absolute_location_is_the_same_in_every_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert Location.of("a").absolute() == Location.of(tmp_path / "a")
    assert Location.of("s3://b/a").absolute() == Location.of("s3://b/a")
