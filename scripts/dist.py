"""Builds what is released: the wheel, its bill of materials inside and beside it, and sums.

    python scripts/dist.py target/dist       # mqcore-*.whl, mqcore.cdx.json, SHA256SUMS
    python scripts/dist.py --twice           # two builds in two folders; their bytes have to agree

The same commit gives the same bytes: times are the commit's (SOURCE_DATE_EPOCH), no path of this
machine is in the extension. It has a folder of objects of its own, since other flags than those of
daily work would build everything anew both ways. Signs nothing: who releases does.
"""

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

ROOT = Path(__file__).resolve().parents[1]
SUMS = "SHA256SUMS"
BILL = "mqcore.cdx.json"
# The oldest glibc that the README names; zig links for it whatever this machine has.
_PLATFORM = "manylinux_2_28"


def built(source: Path, objects: Path, out: Path, time_s: str) -> None:
    """Builds the wheel of a tree, and writes what goes with it.

    Args:
        source: The tree.
        objects: Where the compiler keeps its objects.
        out: Where to; what is there is removed.
        time_s: When its files were made, Unix seconds.
    """
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    bill = out / BILL
    _run([sys.executable, "scripts/sbom.py", str(bill)], source, os.environ)
    maturin = Path(sys.executable).with_name("maturin")
    command = [str(maturin), "build", "--release", "--locked", "--quiet", "--zig"]
    command += ["--compatibility", _PLATFORM, "--sbom-include", str(bill)]
    command += ["--target-dir", str(objects), "--out", str(out)]
    _run(command, source, _environment(source, objects, time_s))
    (out / SUMS).write_text(sums(out), encoding="utf-8")


def sums(folder: Path) -> str:
    """Returns a line for each file of a folder, as `sha256sum -c` takes them."""
    files = sorted(path for path in folder.iterdir() if path.name != SUMS)
    digests = [(hashlib.sha256(path.read_bytes()).hexdigest(), path.name) for path in files]
    return "".join(f"{digest}  {name}\n" for digest, name in digests)


def _environment(source: Path, objects: Path, time_s: str) -> dict[str, str]:
    cargo = os.environ.get("CARGO_HOME", str(Path.home() / ".cargo"))
    # The most specific is the last: that one counts.
    prefixes = {cargo: "/cargo", str(source): "/mqcore", str(objects): "/objects"}
    remapped = [f"--remap-path-prefix={path}={name}" for path, name in prefixes.items()]
    mapped = [f"-ffile-prefix-map={path}={name}" for path, name in prefixes.items()]
    return {
        **os.environ,
        "SOURCE_DATE_EPOCH": time_s,
        "RUSTFLAGS": " ".join(remapped),
        "CFLAGS": " ".join(mapped),
        "CARGO_INCREMENTAL": "0",
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "VIRTUAL_ENV": str(Path(sys.executable).parents[1]),
    }


def _time_of_commit() -> str:
    words = ["git", "log", "-1", "--format=%ct"]
    done = subprocess.run(words, cwd=ROOT, check=True, capture_output=True, text=True)
    return done.stdout.strip()


def _copied(target: Path) -> None:
    """Copies what version control knows, as it is now."""
    words = ["git", "ls-files", "-z", "python", "rust", "benches", "scripts", ":(glob)*"]
    done = subprocess.run(words, cwd=ROOT, check=True, capture_output=True, text=True)
    for name in filter(None, done.stdout.split("\0")):
        if (ROOT / name).is_file():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, target / name)


def _run(
    command: list[str], folder: Path, environment: "os._Environ[str] | dict[str, str]"
) -> None:
    subprocess.run(command, cwd=folder, check=True, env=environment)


def _twice() -> None:
    """Builds here and in a copy elsewhere.

    Raises:
        SystemExit: The bytes differ.
    """
    objects = ROOT / "target" / "dist-objects"
    first = ROOT / "target" / "reproducible" / "first"
    # Asked once: somebody may commit meanwhile.
    time_s = _time_of_commit()
    built(ROOT, objects, first, time_s)
    with TemporaryDirectory(prefix="mqcore-again-") as folder:
        copy, other = Path(folder) / "elsewhere", Path(folder) / "made"
        _copied(copy)
        built(copy, Path(folder) / "objects", other, time_s)
        here, there = ((each / SUMS).read_text(encoding="utf-8") for each in (first, other))
        if here != there:
            kept = first.with_name("second")
            shutil.rmtree(kept, ignore_errors=True)
            shutil.copytree(other, kept)
            raise SystemExit(f"two builds differ:\n{here}{there}see {first} and {kept}")
    print(f"two builds are the same:\n{here}", end="")


def main() -> None:
    """Builds once, or twice."""
    if sys.argv[1:] == ["--twice"]:
        _twice()
        return
    objects = ROOT / "target" / "dist-objects"
    built(ROOT, objects, Path(sys.argv[1]).resolve(), _time_of_commit())


if __name__ == "__main__":
    main()
