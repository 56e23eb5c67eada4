"""What must be there for Spark to start, and the error when it is not."""

import os
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest

import mqcore.spark
from mqcore.spark.bundled_java import java_home_over
from mqcore.spark.errors import SparkSetupError
from mqcore.spark.setup import find_java, need_spark, version_of


def java_that_prints(directory: Path, words: str) -> Path:
    """Makes a Java home whose `java -version` prints `words`."""
    java = directory / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(f"#!/bin/sh\necho '{words}' >&2\n", "utf-8")
    java.chmod(0o755)
    return java


def test_the_module_is_imported_without_spark() -> None:
    code = "import sys, mqcore.spark; assert not {'pyspark', 'pyarrow'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_an_unknown_name_is_no_attribute() -> None:
    assert not hasattr(mqcore.spark, "sessions")
    assert "session" in dir(mqcore.spark)


@pytest.mark.parametrize(
    ("text", "numbers"), [("4.3.0.dev1", (4, 3, 0)), ("26", (26,)), ("git", ())]
)
def test_versions_are_read_up_to_what_is_no_number(text: str, numbers: tuple[int, ...]) -> None:
    assert version_of(text) == numbers


def test_a_missing_package_is_reported_with_the_way_to_get_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def missing(name: str) -> str:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "version", missing)
    with pytest.raises(SparkSetupError, match=r'pyspark 4\.0 .*pip install "mqcore\[spark\]"'):
        need_spark()


def test_a_package_that_is_too_old_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metadata, "version", {"pyspark": "4.2.1", "pyarrow": "17.0.0"}.get)
    with pytest.raises(SparkSetupError, match=r"pyarrow 18 or newer, and finds 17\.0\.0"):
        need_spark()


def test_java_is_found_where_spark_looks(tmp_path: Path) -> None:
    home = java_that_prints(tmp_path / "home", 'openjdk version "17.0.9" 2023-10-17')
    onpath = java_that_prints(tmp_path / "onpath", 'openjdk version "21" 2023-09-19')
    assert find_java({"JAVA_HOME": str(tmp_path / "home"), "PATH": ""}) == home
    assert find_java({"PATH": str(onpath.parent)}) == onpath


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ('java version "1.8.0_402"', "is Java 8"),
        ('openjdk version "11.0.2"', "is Java 11"),
        ("Segmentation fault", "names no version: Segmentation fault"),
    ],
)
def test_an_unfit_java_is_named_with_the_way_to_get_another(
    tmp_path: Path, words: str, expected: str
) -> None:
    java_that_prints(tmp_path, words)
    with pytest.raises(SparkSetupError, match=expected) as refused:
        find_java({"JAVA_HOME": str(tmp_path)})
    assert "apt install openjdk-17" in refused.value.message


def test_no_java_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(SparkSetupError, match="no java on the PATH"):
        find_java({"PATH": str(tmp_path)})
    with pytest.raises(SparkSetupError, match="no bin/java in it"):
        find_java({"JAVA_HOME": str(tmp_path), "PATH": os.environ["PATH"]})


def test_the_bundled_java_drops_one_argument(tmp_path: Path) -> None:
    runtime = tmp_path / "run time"
    java = runtime / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n', "utf-8")
    java.chmod(0o755)
    home = java_home_over(runtime, tmp_path / "home")
    assert java_home_over(runtime, tmp_path / "home") == home
    arguments = ["-Xmx1g", "--add-modules=jdk.incubator.vector", "a b", "$x"]
    done = subprocess.run(
        [home / "bin" / "java", *arguments], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.splitlines() == ["-Xmx1g", "a b", "$x"]
