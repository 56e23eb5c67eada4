"""What must be installed before Spark can work: PySpark, PyArrow, Java. Imports none of them.

Each check reports in one sentence what is missing and how to get it.
"""

import re
import shutil
import subprocess
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path
from typing import Final

from mqcore.spark.errors import SparkSetupError

__all__ = ["JAVA_NEEDED", "find_java", "need_arrow", "need_spark", "version_of"]

# The oldest of each that our code was made for.
PYSPARK_NEEDED: Final = (4, 0)
PYARROW_NEEDED: Final = (18,)
# The classes of Spark 4 are compiled for it.
JAVA_NEEDED: Final = 17
_HOW_TO_GET_JAVA: Final = (
    f"Spark 4 needs Java {JAVA_NEEDED} or 21: apt install openjdk-17-jre-headless, dnf install "
    'java-17-openjdk-headless, or `pip install "mqcore[spark,jre]"` and '
    'mqcore.spark.session(java="bundled")'
)
# A JVM answers within a second; a machine under load takes longer.
_JAVA_ANSWER_S: Final = 30.0


def version_of(text: str) -> tuple[int, ...]:
    """Returns the numbers that a version begins with: `4.3.0.dev1` gives (4, 3, 0)."""
    found = re.match(r"\d+(?:\.\d+)*", text)
    return tuple(map(int, found[0].split("."))) if found else ()


def need_spark() -> None:
    """Checks that PySpark and PyArrow are there.

    Raises:
        SparkSetupError: One is missing, or too old.
    """
    _need("pyspark", PYSPARK_NEEDED)
    need_arrow()


def need_arrow() -> None:
    """Checks that PyArrow is there: archives are written without Spark too.

    Raises:
        SparkSetupError: It is missing, or too old.
    """
    _need("pyarrow", PYARROW_NEEDED)


def _need(name: str, needed: tuple[int, ...]) -> None:
    wanted = ".".join(map(str, needed))
    try:
        found = metadata.version(name)
    except metadata.PackageNotFoundError:
        raise SparkSetupError(
            f"mqcore.spark needs {name} {wanted} or newer, and it is not installed: "
            'pip install "mqcore[spark]"'
        ) from None
    if version_of(found) < needed:
        raise SparkSetupError(
            f"mqcore.spark needs {name} {wanted} or newer, and finds {found}: "
            f'pip install --upgrade "mqcore[spark]"'
        )


def find_java(environment: Mapping[str, str]) -> Path:
    """Returns the `java` that Spark would start.

    Args:
        environment: JAVA_HOME and PATH are read from it, in this order, as Spark's scripts do.

    Raises:
        SparkSetupError: There is none, or it is too old.
    """
    home = environment.get("JAVA_HOME")
    if home:
        java = Path(home) / "bin" / "java"
        if not java.is_file():
            raise SparkSetupError(
                f"JAVA_HOME is {home}, and there is no bin/java in it. {_HOW_TO_GET_JAVA}"
            )
    else:
        found = shutil.which("java", path=environment.get("PATH"))
        if found is None:
            raise SparkSetupError(f"there is no java on the PATH. {_HOW_TO_GET_JAVA}")
        java = Path(found)
    major = _java_major(java)
    if major < JAVA_NEEDED:
        raise SparkSetupError(f"{java} is Java {major}. {_HOW_TO_GET_JAVA}")
    return java


def _java_major(java: Path) -> int:
    """Returns 17 for `openjdk version "17.0.9"`, 8 for `java version "1.8.0_402"`."""
    try:
        output = subprocess.run(
            [java, "-version"], capture_output=True, text=True, timeout=_JAVA_ANSWER_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise SparkSetupError(f"{java} does not start: {error}. {_HOW_TO_GET_JAVA}") from error
    text = output.stderr + output.stdout
    found = re.search(r'version "(\d+)(?:\.(\d+))?', text)
    if found is None:
        first = text.strip().splitlines()[:1]
        raise SparkSetupError(
            f"{java} -version ended with {output.returncode} and names no version"
            f"{': ' + first[0] if first else ''}. {_HOW_TO_GET_JAVA}"
        )
    major = int(found[1])
    return int(found[2] or 0) if major == 1 else major
