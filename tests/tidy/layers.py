"""The layers of the Rust side, top down: the only list of them, and the maps of them in documents.

A crate or module uses only what is on layers below its own. `test_layers` compares this list with
the sources, `ARCHITECTURE.md` and the `lib.rs` of each crate that is listed.
"""

import re
from typing import Final, TypeAlias

Layers: TypeAlias = tuple[tuple[str, ...], ...]

CRATES: Final[Layers] = (
    ("benches",),
    ("bindings",),
    ("reactor", "shipping"),
    ("fast_path", "columns", "packing", "consensus"),
    ("engine", "wire", "replica", "access"),
    ("record", "mutation"),
)
# The modules of a crate.
MODULES: Final[dict[str, Layers]] = {
    "bindings": (
        ("fast_path",),
        ("drained", "reports"),
        ("connection", "consumer_offsets", "half_messages", "pops", "request_times"),
        ("reactors", "direct", "left", "handed"),
        ("locked", "timers", "units", "live_settings", "refill", "controller"),
        ("replication",),
        ("membership",),
        ("bad_records",),
        ("store", "inspection"),
        ("many", "appending"),
        ("batch",),
        ("answers", "received", "frame_reader"),
        ("access", "records", "packing", "calls"),
        ("wire", "json", "columns", "state", "process"),
        ("tls",),
        ("store_reports", "tables", "gil", "fork", "draft", "form", "parts", "quotas"),
        ("buffer", "policy_rows", "settings", "errors", "frozen", "bulk_text"),
    ),
    "reactor": (
        ("reactor",),
        ("running",),
        ("changes", "socket", "busy_poll"),
    ),
    "shipping": (
        ("master", "slave"),
        ("slaves", "follower", "copies", "filling"),
        ("peer", "refill", "source"),
        ("link", "file_hash", "stream"),
        ("background", "end_comparison", "ended", "epochs", "tls"),
    ),
    "consensus": (
        ("raft",),
        ("journal", "node"),
    ),
    "replica": (
        ("master", "slave", "auto_master", "auto_slave", "controller", "walk", "refill"),
        ("course", "intake", "auto_switch", "log_end"),
        ("flow", "stream", "quorum", "members", "epochs"),
        ("fault",),
    ),
    "access": (
        ("access",),
        ("allowed", "explained", "asking"),
        ("tables", "refusals", "failures"),
        ("policies", "account", "rules", "settings", "signature"),
        ("source", "addresses", "resource", "signed_fields"),
        ("fault",),
    ),
    "fast_path": (
        ("locked", "numbers", "lags"),
        ("drain", "feed"),
        ("fast_path",),
        ("processors",),
        ("shared_state",),
        ("send", "recall", "transactions", "pull", "pop", "offset_processor"),
        ("delivery", "delay", "timers"),
        ("context",),
        ("readers",),
        ("pop_run",),
        ("throttling",),
        ("filtering", "repeats", "deferred", "gate"),
        ("connections", "stop", "names", "throttled"),
        ("holds", "refusals"),
        ("policy", "batches"),
        ("requests", "held", "parked", "bits", "gets"),
        (
            *("consumer_offsets", "half_counts", "properties", "moved", "output", "sql", "shape"),
            "exposition",
        ),
        ("traffic",),
        ("times", "quotas"),
        ("request_context", "identity", "codes", "turn", "mark", "shards", "bounds", "stats"),
    ),
    "engine": (
        ("store", "inspect"),
        ("dispatch",),
        ("commit_log", "flush", "consume_queue", "batch_queue", "key_index", "timer"),
        (
            "segment",
            "checkpoint",
            "progress",
            "arrivals",
            "small_state",
            "queue_dirs",
            "queue_store",
        ),
        ("disk", "watermark"),
        ("mmap", "config", "clock", "poison", "notice", "status", "relaxed_json"),
        ("error", "units", "lock"),
    ),
}

# Tests that use several modules of a crate together are on no layer.
TESTS: Final = "tests"

_DECLARED: Final = re.compile(r"^(?:pub )?mod (\w+);", re.MULTILINE)
# A public module may be a link.
_TABLE_ROW: Final = re.compile(r"^//! \| \[?`(\w+)`\]? \|", re.MULTILINE)
_SPACES: Final = re.compile(r" {2,}")


def layer_of(layers: Layers, name: str) -> int | None:
    """Returns the layer of a crate or module, counted from the top, or None for one not listed."""
    return next((number for number, names in enumerate(layers) if name in names), None)


def _listed(text: str) -> Layers:
    """Returns the layers of `a, b | c`."""
    layers = (re.findall(r"\w+", layer) for layer in text.split("|"))
    return tuple(tuple(layer) for layer in layers)


def crate_map(document: str) -> Layers:
    """Returns the layers of the crates in `ARCHITECTURE.md`; empty without a line of them."""
    found = re.search(r"^Crates: `([^`]+)`", document, re.MULTILINE)
    return _listed(found[1]) if found else ()


def module_map(document: str, crate: str) -> Layers:
    """Returns the layers of a crate's modules in `ARCHITECTURE.md`; empty without a block of them.

    One line of the block is one layer, the text to the right of its names explains it.
    """
    title = f"Inside the {crate.replace('_', ' ')}, top down:"
    found = re.search(rf"{title}\n\n((?:    .*\n)+)", document)
    lines = found[1].splitlines() if found else ()
    return _listed("|".join(_SPACES.split(line.strip())[0].replace("|", ",") for line in lines))


def lib_map(lib: str) -> Layers:
    """Returns the layers in the text of a `lib.rs`: `a, b | c`; empty without a list of them."""
    prose = re.sub(r"^//!", "", lib, flags=re.MULTILINE)
    found = re.search(r"`(\w+(?:,\s+\w+)*\s+\|[^`]+)`", prose)
    return _listed(found[1]) if found else ()


def declared(lib: str) -> set[str]:
    """Returns the modules that a `lib.rs` declares, but for its tests."""
    return set(_DECLARED.findall(lib)) - {TESTS}


def table_faults(lib: str, layers: Layers) -> list[str]:
    """The table of modules in a `lib.rs` has every module once, from the top layer down."""
    rows = _TABLE_ROW.findall(lib)
    names = [name for layer in layers for name in layer]
    faults = [f"{name} is missing" for name in names if name not in rows]
    faults += [f"{name} is not listed" for name in rows if name not in names]
    faults += [f"{name} is there twice" for name in set(rows) if rows.count(name) > 1]
    numbers = [layer_of(layers, name) or 0 for name in rows]
    if numbers != sorted(numbers):
        faults.append("not from the top layer down")
    return faults
