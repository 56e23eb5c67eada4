"""A soak: three brokers with replication and access control under steady traffic and chaos.

    cd tests && python -m soak.run --minutes 60 --rate 2000 --out ../target/mqcore-soak

What is acknowledged comes, in spite of all harm; memory, descriptors, threads and disk stay flat.
Writes `result.json` and `soak.svg`; exits with 1 where a promise was broken. `make soak` runs it.
"""

import argparse
import json
import logging
import os
import platform
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

from faults.trio import Trio, asked, trio
from interop.patience import eventually
from mqcore import Admin, Inspection
from mqcore.model.relaxed_json import compact
from mqcore.remoting import Credentials, RequestCode
from soak.chaos import Chaos
from soak.chart import chart
from soak.ledger import Ledger
from soak.samples import COLUMNS, Sampler
from soak.traffic import LEVELS_S, NAMES, ORDERED, REJECTED, WORKS, Traffic

_MIB: Final = 1 << 20
ROOT: Final = Credentials("root", "root-secret")
APP: Final = Credentials("soak", "soak-secret")
# What grows by more in an hour is a leak. Pools of threads grow to their bound, six on two cores,
# when requests come at once; one thread that is left behind by each harm would be sixty.
LIMITS_PER_HOUR: Final = {"memory": 2 * _MIB, "descriptors": 4.0, "threads": 6.0, "disk": 64 * _MIB}
# An hour's growth cannot be read from less.
_MEASURABLE_S: Final = 2_400.0
_SETTLE_S: Final = 600.0
# For what is under way when traffic rests: delays, revived pops, questions about halves.
_DRAIN_S: Final = 180.0
_GUARDED: Final = {
    "authenticationEnabled": "true",
    "authorizationEnabled": "true",
    "initAuthenticationUser": '{"username":"root","password":"root-secret"}',
    "innerClientAuthenticationCredentials": '{"accessKey":"inner","secretKey":"inner-secret"}',
}
KEYS: Final = {
    **_GUARDED,
    "mappedFileSizeCommitLog": str(16 * _MIB),
    "mappedFileSizeConsumeQueue": "600000",
    "mappedFileSizeTimerLog": str(4 * _MIB),
    "cleanResourceInterval": "2000",
    "deleteCommitLogFilesInterval": "0",
    "timerWheelEnable": "true",
    "messageDelayLevel": " ".join(f"{each}s" for each in LEVELS_S),
    "transactionCheckInterval": "1000",
    "transactionTimeOut": "1000",
    "transactionOpBatchInterval": "500",
    "transactionCheckMax": "1000",
    "flushDelayOffsetInterval": "1000",
    "flushConsumerOffsetInterval": "1000",
}


@dataclass(frozen=True, slots=True)
class Plan:
    """What a soak does.

    Attributes:
        seconds: For how long messages are sent.
        rate: Messages a second.
        chaos_s: From one harm to the next; the first comes after so long.
        seed: What harm is drawn from.
        log_mib: What each broker keeps of its log; nothing is flat before it is full.
    """

    seconds: float = 3_600.0
    rate: float = 2_000.0
    chaos_s: float = 60.0
    seed: int = 1
    log_mib: int = 512

    @property
    def settle_s(self) -> float:
        """What is left out of slopes at the beginning."""
        return min(_SETTLE_S, self.seconds / 3)


@dataclass(slots=True)
class Result:
    """What came of a soak.

    Attributes:
        plan: What was to be done.
        seconds: For how long messages were sent.
        works: What became of the messages of each work.
        skipped: Messages that were due while their senders waited.
        harm: What was done: when, for how long, what.
        slopes: By process and figure: growth in an hour, its error, samples.
        peaks: The same: the largest.
        faults: What was broken; empty where all is well.
    """

    plan: Plan
    seconds: float = 0.0
    works: dict[str, dict[str, int]] = field(default_factory=dict)
    skipped: int = 0
    harm: list[tuple[float, float, str]] = field(default_factory=list)
    slopes: dict[str, dict[str, Any]] = field(default_factory=dict)
    peaks: dict[str, dict[str, float]] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)

    def document(self) -> dict[str, Any]:
        """Returns it as what a file of JSON has, with the machine."""
        machine = {"system": platform.platform(), "cores": os.cpu_count()}
        return {"machine": machine, **asdict(self)}


def soak(root: Path, plan: Plan, note: Callable[[str], None] = print) -> tuple[Result, Sampler]:
    """Runs a soak.

    Args:
        root: A directory of its own.
        plan: What is done.
        note: Takes a line about what happens.

    Returns:
        What came of it, and the samples.
    """
    result = Result(plan)
    ledger = Ledger(NAMES, ordered=(ORDERED,))
    keys = KEYS | {"mqcoreLogBytesMax": str(plan.log_mib * _MIB)}
    with trio(root, keys=keys, who=ROOT) as all_:
        prepare(all_)
        stores = {each.name: each.store for each in all_.members}
        namesrvs = all_.namesrv_addresses
        with (
            Sampler(lambda: _pids(all_), stores) as sampler,
            Traffic(namesrvs, all_.find_master, APP, ledger, plan.rate) as traffic,
        ):
            began = time.monotonic()
            with _in_words(result, "chaos"):
                result.harm = _harmed(all_, plan, ledger, note)
            traffic.rest()
            result.seconds = time.monotonic() - began
            note(f"at rest after {result.seconds:.0f} s, {ledger.waiting():,} are under way")
            if not eventually(traffic.is_drained, bool, patience_s=_DRAIN_S):
                result.faults.append(f"missing at the end: {traffic.owed()}")
            result.skipped = traffic.skipped
            with _in_words(result, "replicas"):
                all_.wait_until_whole()
            with _in_words(result, "dead letters"):
                _look_for_dead_letters(all_, ledger)
        printed = [(each.address, each.printed()) for each in all_.programs]
        all_.stop()
        for name, store in stores.items():
            result.faults += [f"{name}: {each}" for each in Inspection(store).verify().problems]
    ledger.close()
    result.faults += [repr(error) for error in sampler.failed]
    result.faults += [f"{flaw.kind}: {flaw.text}" for flaw in ledger.flaws]
    if ledger.flaw_count > len(ledger.flaws):
        result.faults.append(f"{ledger.flaw_count - len(ledger.flaws)} more")
    result.faults += _complaints(printed)
    _account(result, ledger)
    _measure(result, sampler)
    return result, sampler


@contextmanager
def _in_words(result: Result, what: str) -> Iterator[None]:
    """Makes a failure a line of the result: the rest is looked at all the same."""
    try:
        yield
    except (AssertionError, OSError) as error:
        result.faults.append(f"{what}: {error}")


def prepare(all_: Trio) -> None:
    """Makes the user of the clients, its rights, and the topics."""
    all_.wait_until_ready()
    master = all_.master().address
    user = compact({"username": APP.access_key, "password": APP.secret_key})
    entries = [
        {"resource": resource, "actions": actions, "decision": "Allow"}
        for resource, actions in (("Topic:*", ["Pub", "Sub", "Get"]), ("Group:*", ["Sub", "Get"]))
    ]
    subject = f"User:{APP.access_key}"
    policies = [{"policyType": "Custom", "entries": entries}]
    acl = compact({"subject": subject, "policies": policies})
    for code, ext, body in (
        (RequestCode.AUTH_CREATE_USER, {"username": APP.access_key}, user),
        (RequestCode.AUTH_CREATE_ACL, {"subject": subject}, acl),
    ):
        answer = asked(master, code, ext, body, who=ROOT)
        assert answer is not None and answer.code == 0, answer  # noqa: PT018 - one answer
    all_.create_topics(*NAMES)


def _harmed(
    all_: Trio, plan: Plan, ledger: Ledger, note: Callable[[str], None]
) -> list[tuple[float, float, str]]:
    chaos = Chaos(all_, plan.seed)
    began, pause = time.monotonic(), threading.Event()
    number = 0
    while (left_s := began + plan.seconds - time.monotonic()) > 0:
        number += 1
        pause.wait(min(left_s, max(0.0, began + number * plan.chaos_s - time.monotonic())))
        if time.monotonic() >= began + plan.seconds:
            break
        what = chaos.once()
        given = sum(each.given for each in ledger.accounts.values())
        after_s = time.monotonic() - began
        note(f"{after_s:6.0f} s {what}: {given:,} given, {ledger.waiting():,} under way")
    return chaos.done


def _pids(all_: Trio) -> dict[str, int]:
    named = [(f"namesrv{at}", each.pid) for at, each in enumerate(all_.namesrvs)]
    return {name: pid for name, pid in named if pid is not None} | all_.pids()


def _look_for_dead_letters(all_: Trio, ledger: Ledger) -> None:
    """Counts those that the broker has ever had: the log does not keep all of them."""
    wanted = ledger.accounts[REJECTED].acknowledged
    topic = f"%DLQ%soak-{REJECTED}"

    def count() -> int:
        with Admin(all_.namesrv_addresses, credentials=ROOT) as admin:
            return sum(each.max_offset for each in admin.topics.stats(topic).queues)

    found = eventually(count, lambda seen: seen >= wanted, patience_s=_DRAIN_S)
    assert found >= wanted, f"{found} dead letters of {wanted}"


def _complaints(printed: list[tuple[str, str]]) -> list[str]:
    """Returns where a program printed an error that nobody expected."""
    found = []
    for address, text in printed:
        count = text.count("Traceback (most recent call last)") + text.count("panicked at")
        if count:
            found.append(f"{address} printed {count} errors that nobody expected")
    return found


def _account(result: Result, ledger: Ledger) -> None:
    for name, account in ledger.accounts.items():
        result.works[name] = {
            "sent": account.sent,
            "acknowledged": account.acknowledged,
            "not acknowledged": account.failed,
            "given": account.given,
            "given again": account.again,
        }
        if account.given == 0:
            result.faults.append(f"nothing of {name} was given to anybody")


def _measure(result: Result, sampler: Sampler) -> None:
    """Fits the slopes; those of processes that nobody killed are held against the limits."""
    is_measurable = result.plan.seconds - result.plan.settle_s >= _MEASURABLE_S
    for name, series in sorted(sampler.series.items()):
        result.peaks[name] = {column: max(series.values[column]) for column in COLUMNS}
        result.slopes[name] = {}
        for column in COLUMNS:
            slope = series.slope(column, result.plan.settle_s)
            if slope is None:
                continue
            result.slopes[name][column] = asdict(slope)
            limit = LIMITS_PER_HOUR[column]
            if is_measurable and series.lives == 1 and slope.per_hour >= limit:
                text = f"{name}: {column} grows by {slope.per_hour:,.1f} an hour, limit {limit:,}"
                result.faults.append(text)


def shown(result: Result) -> Iterator[str]:
    """Gives the lines that a person reads."""
    yield f"{result.seconds:.0f} s, {len(result.harm)} times harm"
    yield f"{result.skipped:,} messages were due while their senders waited"
    for work in WORKS:
        row = result.works.get(work.name, {})
        yield f"  {work.name}: " + ", ".join(f"{count:,} {what}" for what, count in row.items())
    for name, slopes in result.slopes.items():
        peaks = result.peaks[name]
        yield f"  {name}: " + "; ".join(
            f"{column} up to {_figure(column, peaks[column])}, "
            f"{_figure(column, slope['per_hour'])} an hour (+- {_figure(column, slope['error'])})"
            for column, slope in slopes.items()
            if peaks[column]
        )
    yield from (f"  FAULT {each}" for each in result.faults)
    yield "all well" if not result.faults else f"{len(result.faults)} faults"


def _figure(column: str, value: float) -> str:
    return f"{value / _MIB:.2f} MiB" if column in ("memory", "disk") else f"{value:.1f}"


def _line() -> Mapping[str, Any]:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--rate", type=float, default=2_000.0, help="messages a second")
    parser.add_argument("--chaos-seconds", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--log-mib", type=int, default=512, help="what a broker keeps of its log")
    parser.add_argument("--out", type=Path, required=True, help="where the result is written")
    parser.add_argument("--chart", type=Path, help="where the chart is written too")
    return vars(parser.parse_args())


def main() -> int:
    """Runs it, prints, writes; 1 where a promise was broken."""
    # Each dead letter that the traffic makes is a warning of its client.
    logging.basicConfig(level=logging.ERROR)
    line = _line()
    plan = Plan(
        seconds=line["minutes"] * 60,
        rate=line["rate"],
        chaos_s=line["chaos_seconds"],
        seed=line["seed"],
        log_mib=line["log_mib"],
    )
    out: Path = line["out"]
    out.mkdir(parents=True, exist_ok=True)
    root = Path(tempfile.mkdtemp(prefix="soak-", dir=out))
    result, sampler = soak(root, plan, lambda text: print(text, flush=True))
    for text in shown(result):
        print(text)
    document = json.dumps(result.document(), indent=1) + "\n"
    (out / "result.json").write_text(document, encoding="utf-8")
    picture = chart(sampler, result.harm)
    for path in (out / "soak.svg", *([line["chart"]] if line["chart"] else [])):
        path.write_text(picture, encoding="utf-8")
    if result.faults:
        print(f"stores and logs are kept in {root}")
        return 1
    shutil.rmtree(root)
    return 0


if __name__ == "__main__":
    sys.exit(main())
