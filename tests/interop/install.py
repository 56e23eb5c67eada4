"""Gets official releases ready: Java looked for, jars fetched by Maven, our questions compiled.

Everything lands in `.cache/official/VERSION` and is made again only when its inputs change.
"""

import fcntl
import functools
import hashlib
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import ParamSpec

HERE = Path(__file__).parent
JAVA_SOURCES = HERE / "java"
CACHE = HERE.parents[1] / ".cache" / "official"

GO_SOURCES = HERE / "go"
JAVA_NEEDED = 17
HOW_TO_GET_GO = (
    "the official Go client needs Go 1.21 or newer: apt install golang, or https://go.dev/dl; "
    "or leave these tests out with --without-java"
)
HOW_TO_GET_JAVA = (
    "the official broker needs Java 17 (with javac) and Maven: "
    "apt install openjdk-17-jdk-headless maven; or leave these tests out with --without-java"
)


class OfficialError(Exception):
    """The official broker, or what it needs, did not do what was asked."""


class JavaMissingError(OfficialError):
    """Java 17, Maven or Go is not there; the text describes how to get it."""


P = ParamSpec("P")


def alone(make: Callable[P, Path]) -> Callable[P, Path]:
    """Lets one process at a time make something; who waited finds it made."""

    @functools.wraps(make)
    def made(*args: P.args, **kwargs: P.kwargs) -> Path:
        CACHE.mkdir(parents=True, exist_ok=True)
        with (CACHE / ".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            return make(*args, **kwargs)

    return made


def need_java() -> None:
    """Raises JavaMissingError unless Java 17, javac and Maven are there."""
    if not all(shutil.which(tool) for tool in ("java", "javac", "mvn")):
        raise JavaMissingError(HOW_TO_GET_JAVA)
    done = subprocess.run(["javac", "-version"], capture_output=True, text=True, check=False)
    words = (done.stdout + done.stderr).split()
    major = words[1].split(".")[0] if len(words) > 1 else ""
    if not major.isdigit() or int(major) < JAVA_NEEDED:
        raise JavaMissingError(f"{HOW_TO_GET_JAVA} (found: {' '.join(words) or 'no version'})")


@alone
def go_client() -> Path:
    """Returns our program over the official Go client, built once per state of its sources.

    Raises:
        JavaMissingError: Go is not there; the text describes how to get it.
        OfficialError: It does not build.
    """
    if shutil.which("go") is None:
        raise JavaMissingError(HOW_TO_GET_GO)
    sources = sorted(GO_SOURCES.iterdir())
    wanted = hashlib.sha256(b"".join(source.read_bytes() for source in sources)).hexdigest()
    home = CACHE / "go"
    program, stamp = home / "client", home / "client.sha256"
    if not (program.is_file() and stamp.is_file() and stamp.read_text("utf-8") == wanted):
        home.mkdir(parents=True, exist_ok=True)
        _run("building the Go client", ["go", "build", "-o", str(program), "."], GO_SOURCES)
        stamp.write_text(wanted, encoding="utf-8")
    return program


def _run(what: str, command: list[str], folder: Path | None = None) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder)
    if done.returncode != 0:
        raise OfficialError(f"{what} failed: {(done.stdout + done.stderr)[-2000:]}")


@alone
def fetched(version: str, home: Path, pom: Path = HERE / "pom.xml") -> Path:
    """Returns the folder of a release's jars; Maven fills it once per state of its pom."""
    jars = home / "lib"
    stamp = home / "lib.sha256"
    wanted = hashlib.sha256(pom.read_bytes()).hexdigest()
    if stamp.is_file() and stamp.read_text(encoding="utf-8") == wanted:
        return jars
    shutil.rmtree(jars, ignore_errors=True)
    command = ["mvn", "-q", "-B", "-f", str(pom), f"-Drocketmq.version={version}"]
    goal = ["dependency:copy-dependencies", "-DincludeScope=runtime", f"-DoutputDirectory={jars}"]
    home.mkdir(parents=True, exist_ok=True)
    _run(f"fetching the jars of {version} by Maven", [*command, *goal])
    stamp.write_text(wanted, encoding="utf-8")
    return jars


@alone
def compiled(home: Path, jars: Path) -> Path:
    """Returns the folder of our classes, compiled once per state of their sources."""
    sources = sorted(JAVA_SOURCES.rglob("*.java"))
    wanted = hashlib.sha256(b"".join(source.read_bytes() for source in sources)).hexdigest()
    classes = home / "classes"
    stamp = home / "classes.sha256"
    if stamp.is_file() and stamp.read_text(encoding="utf-8") == wanted:
        return classes
    shutil.rmtree(classes, ignore_errors=True)
    command = ["javac", "-nowarn", "-encoding", "UTF-8", "-cp", f"{jars}/*", "-d", str(classes)]
    _run("compiling the questions", [*command, *(str(source) for source in sources)])
    stamp.write_text(wanted, encoding="utf-8")
    return classes
