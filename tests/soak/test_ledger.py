"""The accounts of a soak find each broken rule, and nothing in what is as it should be."""

from soak.ledger import Ledger


def ledger() -> Ledger:
    found = Ledger(("Plain", "Ordered"), ordered=("Ordered",))
    account = found.accounts["Plain"]
    for _ in range(100):
        account.acknowledge(account.next_number())
    for number in reversed(range(100)):
        found.give("Plain", number)
    return found


def kinds(found: Ledger) -> list[str]:
    return [flaw.kind for flaw in found.flaws]


def test_what_came_in_any_order_is_whole_and_deliveries_again_are_counted() -> None:
    found = ledger()
    found.give("Plain", 7)
    account = found.accounts["Plain"]
    assert (account.given, account.again, account.waiting) == (100, 1, 0)
    found.close()
    assert found.flaws == []


def test_what_was_acknowledged_and_never_came_is_lost() -> None:
    found = ledger()
    account = found.accounts["Plain"]
    account.acknowledge(account.next_number())
    assert account.missing() == [100]
    found.close()
    assert kinds(found) == ["lost"]


def test_what_came_before_its_acknowledgement_is_not_waited_for() -> None:
    found = ledger()
    account = found.accounts["Plain"]
    number = account.next_number()
    found.give("Plain", number)
    account.acknowledge(number)
    found.close()
    assert found.flaws == []


def test_what_is_early_rolled_back_or_nobodys_is_a_flaw() -> None:
    found = ledger()
    found.give("Plain", 1, due_ms=10, stored_ms=9)
    found.give("Plain", 2, is_wanted=False)
    found.give("Plain", 100)
    assert kinds(found) == ["early", "unwanted", "unknown"]


def test_a_gap_in_a_queue_in_order_is_a_flaw_and_a_repeat_is_none() -> None:
    found = ledger()
    for offset in (0, 1, 0, 1, 2):
        found.at_offset("Ordered", 0, offset)
    assert found.flaws == []
    found.at_offset("Ordered", 0, 4)
    assert kinds(found) == ["skipped"]
    found.at_offset("Plain", 0, 9)
    assert found.flaw_count == 1
