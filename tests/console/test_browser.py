"""Journeys in a headless Chromium: scripts, keys, colours, what the policy of the page forbids.

Left out where there is no Chromium, or no Playwright: `make browser` installs both. With
MQCORE_SCREENSHOTS=DIR pictures of every page are kept there, in light and dark, wide and narrow.
"""

import os
import shutil
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from console_running import PASSWORD
from mqcore import Admin, ConsumeFrom, Message, Producer, PushConsumer, Reject
from mqcore.admin import Entry, Resource, User
from mqcore.console import Console
from mqcore.console.pages.brokers import TABS
from mqcore.console.routes import MENU
from mqcore.testing import Broker, Inbox

playwright = pytest.importorskip("playwright.sync_api")
CHROMIUM = shutil.which("chromium")
pytestmark = [
    pytest.mark.browser,
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="there is no chromium"),
]
# Presses of the tab key within which anything on a page is reached.
TABS_MAX = 200
# How often a page is loaded until what was sent is on it.
LOADS = 40
SCREENSHOTS = os.environ.get("MQCORE_SCREENSHOTS", "")
QUOTAS = "user:shop=producer_byte_rate:1048576;topic:orders*=producer_message_rate:1000"
WIDE, NARROW = {"width": 1280, "height": 800}, {"width": 400, "height": 800}


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    with playwright.sync_playwright() as started:
        sandbox = ["--no-sandbox"] if os.geteuid() == 0 else []
        browser = started.chromium.launch(executable_path=CHROMIUM, args=sandbox)
        yield browser
        browser.close()


@pytest.fixture
def tab(chromium: Any, console: Console) -> Iterator[Any]:
    """A logged-in tab; an error of a script, or a breach of the policy, fails the test."""
    context = chromium.new_context(viewport=WIDE)
    page = context.new_page()
    faults: list[str] = []
    page.on("console", lambda line: faults.append(line.text) if line.type == "error" else None)
    page.on("pageerror", lambda error: faults.append(str(error)))
    page.goto(f"http://127.0.0.1:{console.ports['console']}/")
    page.fill("[name=user]", "admin")
    page.fill("[name=password]", PASSWORD)
    page.click("text=Log in")
    page.wait_for_selector("h1:has-text('Overview')")
    yield page
    context.close()
    assert faults == []


EVERY = (
    *(path for path, _ in MENU),
    *(f"/brokers/broker-test/0?tab={each}" for each in TABS),
    *("/messages?by=time", "/audit?check=yes", "/dead-letters/diers"),
    *("/access/shop?action=Pub&resource=Topic:orders", "/audit?of={namesrv}", "/audit?of={broker}"),
)


@pytest.fixture(scope="module")
def every(broker: Broker) -> Iterator[list[str]]:
    """Returns the paths of all pages; those that are empty on most brokers have something."""
    orders, groups = (Resource.of_text(text) for text in ("Topic:orders*", "Group:*"))

    def fill() -> None:
        with Admin(broker.namesrv) as admin:
            admin.access.create_user(User("root", "root-secret", "Super"))
            admin.access.create_user(User("shop", "shop-secret", "Normal"))
            admin.access.change_user(User("root", "", status="disable"))
            admin.access.grant("shop", Entry(orders, ("Pub", "Sub"), ("10.0.0.0/8",), "Allow"))
            admin.access.grant("shop", Entry(groups, ("Sub",), (), "Deny"))
            admin.brokers.change_config(broker.address, {"mqcoreQuotas": QUOTAS})
            admin.name_servers.put_kv("browser", "orders", "broker-test:4")

    def empty() -> None:
        with Admin(broker.namesrv) as admin:
            admin.name_servers.delete_kv("browser", "orders")
            admin.brokers.change_config(broker.address, {"mqcoreQuotas": ""})
            for user in ("root", "shop"):
                admin.access.delete_user(user)

    in_thread(fill)
    yield [each.format(namesrv=broker.namesrv, broker=broker.address) for each in EVERY]
    in_thread(empty)


def in_thread(work: Callable[[], None]) -> None:
    """Does something beside the event loop that Playwright has in this thread."""
    with ThreadPoolExecutor(1) as pool:
        pool.submit(work).result()


def send(broker: Broker, topic: str, count: int) -> None:
    with Producer(broker.namesrv, group="p") as producer:
        for number in range(count):
            producer.send(Message(topic, f"<b>{number}</b>", keys=f"{topic}-{number}"))


def let_die(broker: Broker) -> None:
    """Lets a group fail on a message for good."""
    broker.ensure_topic("dying", queues=1)
    broker.ensure_topic("%DLQ%diers", queues=1)
    send(broker, "dying", 1)
    with (
        PushConsumer(
            broker.namesrv,
            group="diers",
            topics="dying",
            handler=lambda _message: Reject(),
            consume_from=ConsumeFrom.FIRST_OFFSET,
        ),
        Inbox(broker.namesrv, "%DLQ%diers") as inbox,
    ):
        inbox.take(1)


def at(tab: Any, path: str) -> Any:
    """Goes to a path of the console."""
    tab.goto(tab.url.split("/", 3)[0] + "//" + tab.url.split("/")[2] + path)
    return tab


def heading(tab: Any) -> str:
    return str(tab.inner_text("h1"))


def test_a_topic_is_created_and_written_to(tab: Any) -> None:
    at(tab, "/topics")
    tab.click("text=Create a topic >> nth=0")
    tab.fill("#new-name", "journey")
    tab.fill("#new-queues", "2")
    tab.click("text=Plan: create it")
    assert "mqcore topic create journey" in tab.inner_text("pre.command")
    tab.click("text=Create it")
    assert heading(tab).startswith("Topic journey")
    assert "journey was created" in tab.inner_text(".notice")
    tab.click("nav.tabs >> text=Produce")
    tab.fill("#body", '{"a": 1}')
    tab.fill("#keys", "journey-1")
    tab.click("text=Plan: send it")
    tab.click("text=Send it")
    assert "sent as" in tab.inner_text(".notice")
    at(tab, "/messages?by=key")
    tab.fill("#topic", "journey")
    tab.fill("#key", "journey-1")
    tab.click("button:has-text('Search')")
    tab.click("table >> a >> nth=0")
    assert '"a": 1' in tab.inner_text("pre.body")
    tab.click("nav.tabs >> text=hex")
    assert "7b 22 61 22" in tab.inner_text("pre.body")


def test_a_group_is_moved_with_a_preview(tab: Any, broker: Broker) -> None:
    broker.ensure_topic("travelled", queues=1)
    in_thread(lambda: send(broker, "travelled", 3))
    at(tab, "/groups")
    tab.fill("#new-name", "travellers")
    tab.click("text=Plan: create it")
    tab.click("text=Create it")
    tab.click("nav.tabs >> text=Move")
    tab.fill("#topic", "travelled")
    tab.select_option("#to", "end")
    tab.click("text=Plan: show where it goes")
    assert "3 messages are skipped" in tab.inner_text(".warning")
    tab.click("text=Leave it")
    assert broker.offsets("travellers", "travelled") == {}
    tab.fill("#topic", "travelled")
    tab.select_option("#to", "end")
    tab.click("text=Plan: show where it goes")
    tab.click("button:has-text('Move it')")
    assert broker.offsets("travellers", "travelled") == {0: 3}


def test_dead_letters_are_sent_again(tab: Any, broker: Broker) -> None:
    in_thread(lambda: let_die(broker))
    at(tab, "/dead-letters/diers")
    tab.check("[name=chosen] >> nth=0")
    tab.click("text=Plan: send the chosen ones")
    tab.click("text=Send them")
    assert "1 of 1 dead letters were sent again" in tab.inner_text(".notice")


def test_messages_are_watched_live(tab: Any, broker: Broker) -> None:
    broker.ensure_topic("watched", queues=1)
    at(tab, "/topics/watched/live")
    tab.wait_for_selector("#live-state:has-text('connected')")
    in_thread(lambda: send(broker, "watched", 1))
    tab.wait_for_selector("#live-rows >> text=<b>0</b>", timeout=15_000)
    tab.click("#pause")
    assert tab.inner_text("#pause") == "Go on"
    assert tab.query_selector("#live-rows b") is None


def test_messages_are_watched_by_an_expression(tab: Any, broker: Broker) -> None:
    broker.ensure_topic("chosen", queues=1)
    at(tab, "/topics/chosen/live")
    tab.fill("#sql", "amount > 10")
    tab.click("button:has-text('Filter')")
    tab.wait_for_selector("#live-state:has-text('connected')")

    def send_both() -> None:
        with Producer(broker.namesrv, group="p") as producer:
            for amount in ("5", "50"):
                sent = Message("chosen", f"amount {amount}", properties={"amount": amount})
                producer.send(sent)

    in_thread(send_both)
    tab.wait_for_selector("#live-rows >> text=amount 50", timeout=15_000)
    assert "amount 5\n" not in f"{tab.inner_text('#live-rows')}\n"
    tab.fill("#sql", "amount >")
    tab.click("button:has-text('Filter')")
    tab.wait_for_selector("#live-state:has-text('subscription failed')", timeout=15_000)


def test_a_timed_message_is_taken_back(tab: Any, broker: Broker) -> None:
    broker.ensure_topic("coming", queues=1)

    def send_late() -> None:
        with Producer(broker.namesrv, group="p") as producer:
            producer.send(Message("coming", "x", keys="c", deliver_at=time.time() + 3_600))

    in_thread(send_late)
    row = "tr:has(a:text-is('coming')) >> button"
    for _ in range(LOADS):
        at(tab, "/later")
        if tab.query_selector(row):
            break
    tab.click(row)
    assert "mqcore msg recall" in tab.inner_text("pre.command")
    tab.click("button:has-text('Take it back')")
    assert "was taken back" in tab.inner_text(".notice")


def test_what_a_broker_occupies_is_looked_at(tab: Any) -> None:
    at(tab, "/brokers")
    tab.click("tbody a >> nth=0")
    tab.click("nav.tabs >> text=Memory")
    assert "Python objects" in tab.inner_text("main")
    tab.click("text=which files")
    assert tab.query_selector("svg.strip rect.shade8") is not None
    tab.click("nav.tabs >> text=Slow requests")
    assert "How long stages take" in tab.inner_text("main")
    tab.click("nav.crumbs >> text=Brokers")
    assert heading(tab) == "Brokers"


def test_a_command_line_is_copied(tab: Any) -> None:
    tab.context.grant_permissions(["clipboard-read", "clipboard-write"])
    at(tab, "/brokers/broker-test/0?tab=memory")
    tab.click("button:has-text('Copy')")
    tab.wait_for_selector("button:has-text('Copied')")
    copied = tab.evaluate("navigator.clipboard.readText()")
    assert copied.startswith("mqcore broker memory 127.0.0.1:")


def test_every_page_is_there_without_scripts(
    chromium: Any, console: Console, every: list[str]
) -> None:
    context = chromium.new_context(viewport=WIDE, java_script_enabled=False)
    page = context.new_page()
    page.goto(f"http://127.0.0.1:{console.ports['console']}/")
    page.fill("[name=user]", "admin")
    page.fill("[name=password]", PASSWORD)
    page.click("text=Log in")
    for path in every:
        at(page, path)
        assert heading(page), path
    at(page, "/topics")
    page.fill("#new-name", "unscripted")
    page.click("text=Plan: create it")
    page.click("text=Create it")
    assert "unscripted was created" in page.inner_text(".notice")
    page.select_option("#theme", "dark")
    page.click("button:has-text('Set')")
    assert page.query_selector("html[data-theme=dark]") is not None
    context.close()


def test_a_change_is_made_by_keys_alone(tab: Any) -> None:
    at(tab, "/groups")
    for _ in range(TABS_MAX):
        tab.keyboard.press("Tab")
        if tab.evaluate("document.activeElement.id") == "new-name":
            break
    tab.keyboard.type("typed")
    tab.keyboard.press("Enter")
    tab.wait_for_selector("h1:has-text('Create group typed')")
    for _ in range(TABS_MAX):
        tab.keyboard.press("Tab")
        if tab.evaluate("document.activeElement.textContent") == "Create it":
            break
    tab.keyboard.press("Enter")
    tab.wait_for_selector("h1:has-text('Group typed')")


def test_a_setting_is_changed_while_the_broker_runs(tab: Any) -> None:
    at(tab, "/brokers/broker-test/0?tab=configuration&q=transactionTimeOut")
    tab.fill("[aria-label='New value of transactionTimeOut']", "7777")
    tab.click("button:has-text('Plan')")
    assert "7777" in tab.inner_text("table")
    tab.click("text=Change it")
    assert "transactionTimeOut is 7777" in tab.inner_text(".notice")


def test_a_delete_wants_the_name(tab: Any, broker: Broker) -> None:
    broker.ensure_topic("kept", queues=1)
    at(tab, "/topics/kept?tab=settings")
    tab.click("text=Plan: delete it")
    tab.fill("#confirm", "other")
    tab.click("button.danger")
    assert "another name" in tab.inner_text(".fault")
    tab.fill("#confirm", "kept")
    tab.click("button.danger")
    assert "topic kept was deleted" in tab.inner_text(".notice")


def test_keys_go_everywhere(tab: Any, broker: Broker) -> None:
    broker.ensure_topic("a-keyed", queues=1)
    for keys, text in (
        ("gt", "Topics"),
        ("gg", "Consumer groups"),
        ("gb", "Brokers"),
        ("?", "Help"),
    ):
        tab.keyboard.press(keys[0])
        if keys[1:]:
            tab.keyboard.press(keys[1])
        tab.wait_for_selector(f"h1:has-text('{text}')")
    at(tab, "/topics")
    tab.keyboard.press("j")
    assert tab.query_selector("tr.at") is not None
    tab.keyboard.press("Enter")
    tab.wait_for_selector("h1:has-text('Topic')")
    tab.keyboard.press("/")
    tab.keyboard.type("keyed")
    tab.keyboard.press("Enter")
    tab.wait_for_selector("table >> text=a-keyed")


def test_colours_are_chosen_and_kept(tab: Any) -> None:
    def background() -> str:
        return str(tab.evaluate("getComputedStyle(document.body).backgroundColor"))

    light = background()
    tab.select_option("#theme", "dark")
    tab.wait_for_selector("html[data-theme=dark]")
    assert background() != light
    at(tab, "/topics")
    assert background() != light
    tab.select_option("#theme", "")
    tab.wait_for_selector("html:not([data-theme])")


def test_a_page_of_figures_loads_again_by_itself(tab: Any) -> None:
    at(tab, "/brokers")
    before = tab.inner_text("main")
    tab.wait_for_function(
        "before => document.getElementById('main').innerText !== before", arg=before, timeout=30_000
    )
    assert heading(tab) == "Brokers"


def test_nothing_runs_over_the_edge(tab: Any, every: list[str]) -> None:
    for size in (WIDE, NARROW):
        tab.set_viewport_size(size)
        for path in every:
            at(tab, path)
            width = tab.evaluate("document.documentElement.scrollWidth")
            assert width <= size["width"], (path, size, width)


CONTRAST = (Path(__file__).parent / "contrast.js").read_text(encoding="utf-8")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_everything_can_be_read(tab: Any, every: list[str], scheme: str, tmp_path: Path) -> None:
    tab.emulate_media(color_scheme=scheme)
    directory = Path(SCREENSHOTS) if SCREENSHOTS else tmp_path
    directory.mkdir(parents=True, exist_ok=True)
    for path in every:
        at(tab, path)
        assert tab.evaluate(CONTRAST) == [], path
        name = path.strip("/").replace("/", "-").replace("?", "-") or "overview"
        tab.screenshot(path=directory / f"{name}-{scheme}.png")
