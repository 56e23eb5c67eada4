"""The membership of a broker under a controller: histories of requests, answers and notices."""

import random
from collections.abc import Callable

import pytest

from broker.scripted_controller import ScriptedController
from mqcore.broker.replication.controller_messages import (
    Answer,
    Ask,
    Member,
    Purpose,
    Standing,
    SyncStateSet,
)
from mqcore.broker.replication.identity import Candidate, Identity
from mqcore.broker.replication.membership import (
    Membership,
    Phase,
    Timetable,
)
from mqcore.broker.replication.orders import (
    Become,
    Follow,
    ForgetCandidate,
    ForgetIdentity,
    KeepCandidate,
    KeepIdentity,
    Order,
    RefuseSet,
    SettleEnd,
    TakeSet,
)
from mqcore.remoting import ResponseCode

REFUSED = Answer(ResponseCode.CONTROLLER_ALTER_SYNC_STATE_SET_FAILED, "", {}, b"")
STANDING = Standing(epoch=3, max_offset=700, confirm_offset=600)


class Life:
    """One member with its clock, against a scripted controller."""

    def __init__(
        self,
        controller: ScriptedController,
        number: int = 1,
        *,
        identity: Identity | None = None,
        candidate: Candidate | None = None,
        is_learner: bool = False,
    ) -> None:
        self.controller = controller
        self.now_ms = 0
        self.orders: list[Order] = []
        began_ms, address = 1_000 + number, f"host{number}:10911"
        member = Member("c", "b", address, began_ms, is_learner=is_learner)
        self.membership = Membership(
            member, controller.addresses, Timetable(), identity=identity, candidate=candidate
        )

    def step(self, lose: Callable[[Ask], bool] = lambda _ask: False) -> list[Ask]:
        """Sends what is due, takes the answers that are not lost; returns what was sent."""
        membership = self.membership
        asks = membership.due(self.now_ms, STANDING)
        for ask in asks:
            if ask.purpose is Purpose.HEARTBEAT:
                if not lose(ask):
                    self.controller.answer(ask)
                continue
            answer = self.controller.answer(ask)
            membership.answered(ask, None if lose(ask) else answer, self.now_ms)
        self.orders += membership.take_orders()
        self.now_ms = max(self.now_ms + 1, membership.next_ms(self.now_ms))
        return asks

    def run(self, until_ms: int) -> None:
        """Goes on until a time."""
        while self.now_ms < until_ms:
            self.step()

    def took(self, kind: type[Order]) -> list[Order]:
        """Returns the orders of a kind."""
        return [order for order in self.orders if isinstance(order, kind)]


def running(controller: ScriptedController, number: int = 1) -> Life:
    """Returns a member that runs."""
    life = Life(controller, number)
    life.run(2_000)
    assert life.membership.phase is Phase.RUNNING
    return life


def test_the_first_broker_of_a_group_gets_an_id_and_becomes_its_master() -> None:
    controller = ScriptedController()
    life = running(controller)
    identity = Identity("c", "b", 1)
    assert life.orders == [
        KeepCandidate(Candidate(identity, "host1:10911;1001")),
        KeepIdentity(identity),
        Become(1, SyncStateSet((1,), 1)),
    ]
    order = [ask.purpose for ask in controller.heard if ask.purpose is not Purpose.HEARTBEAT]
    assert order[:5] == [
        Purpose.LEADER,
        Purpose.NEXT_ID,
        Purpose.APPLY,
        Purpose.REGISTER,
        Purpose.ELECT,
    ]


def test_a_heartbeat_comes_before_the_first_election() -> None:
    controller = ScriptedController()
    running(controller)
    purposes = [ask.purpose for ask in controller.heard]
    assert purposes.index(Purpose.HEARTBEAT) < purposes.index(Purpose.ELECT)
    assert purposes.index(Purpose.REGISTER) < purposes.index(Purpose.HEARTBEAT)


def test_the_second_broker_follows_the_first() -> None:
    controller = ScriptedController()
    running(controller)
    second = running(controller, 2)
    assert second.orders[-1] == Follow(1, 1, "host1:10911")
    assert second.membership.identity == Identity("c", "b", 2)


def test_a_learner_waits_for_a_master_and_is_none() -> None:
    controller = ScriptedController()
    learner = Life(controller, is_learner=True)
    learner.run(20_000)
    assert not any(isinstance(order, Become) for order in learner.orders)
    running(controller, 2)
    learner.run(40_000)
    assert learner.orders[-1] == Follow(1, 2, "host2:10911")
    assert learner.membership.phase is Phase.RUNNING


def test_a_broker_with_an_id_registers_with_it() -> None:
    controller = ScriptedController()
    running(controller)
    again = Life(controller, 1, identity=Identity("c", "b", 1))
    again.run(2_000)
    assert Purpose.APPLY not in {a.purpose for a in controller.heard[-6:]}
    assert again.orders == [Become(1, SyncStateSet((1,), 1))]


def test_an_application_is_made_again_with_its_check_code() -> None:
    controller = ScriptedController()
    kept = Candidate(Identity("c", "b", 1), "host1:10911;77")
    life = Life(controller, candidate=kept)
    life.run(2_000)
    assert life.orders[0] == KeepIdentity(kept.identity)
    assert controller.group.codes == {1: "host1:10911;77"}


def test_an_id_that_somebody_else_took_is_given_up() -> None:
    controller = ScriptedController()
    running(controller)
    kept = Candidate(Identity("c", "b", 1), "other:1;77")
    life = Life(controller, 2, candidate=kept)
    life.run(4_000)
    assert life.orders[0] == ForgetCandidate()
    assert life.membership.identity == Identity("c", "b", 2)


def test_heartbeats_go_to_every_controller_with_all_fields() -> None:
    controller = ScriptedController(("c0:1", "c1:1", "c2:1"))
    life = running(controller)
    controller.heard.clear()
    life.run(life.now_ms + 3_000)
    beats = [ask for ask in controller.heard if ask.purpose is Purpose.HEARTBEAT]
    assert {ask.address for ask in beats} == {"c0:1", "c1:1", "c2:1"}
    assert 6 <= len(beats) <= 12
    assert beats[0].ext == {
        "clusterName": "c",
        "brokerAddr": "host1:10911",
        "brokerName": "b",
        "brokerId": "1",
        "epoch": "3",
        "maxOffset": "700",
        "confirmOffset": "600",
        "heartbeatTimeoutMills": "10000",
        "electionPriority": "2147483647",
    }


def test_a_broker_that_is_not_well_sends_no_heartbeat() -> None:
    life = running(ScriptedController())
    life.now_ms += 5_000
    assert Purpose.HEARTBEAT not in {a.purpose for a in life.membership.due(life.now_ms, None)}


def test_another_leader_is_found_where_one_does_not_answer() -> None:
    controller = ScriptedController(("c0:1", "c1:1", "c2:1"))
    life = running(controller)
    controller.leader = "c2:1"
    until = life.now_ms + 10_000
    while life.now_ms < until and life.membership.leader != "c2:1":
        life.step(lambda ask: ask.address == "c0:1")
    assert life.membership.leader == "c2:1"
    life.step()
    assert life.membership.why == ""


def test_a_notice_makes_a_slave_master_and_a_late_one_changes_nothing() -> None:
    controller = ScriptedController()
    running(controller)
    second = running(controller, 2)
    controller.group.members = SyncStateSet((1, 2), 2)
    late = controller.notice()
    controller.die(1)
    second.membership.notified(*controller.notice(), now_ms=second.now_ms)
    second.membership.notified(*late, now_ms=second.now_ms)
    assert second.membership.take_orders() == [Become(2, SyncStateSet((2,), 3))]
    assert second.membership.is_master


def test_a_lost_notice_is_made_good_by_the_next_look() -> None:
    controller = ScriptedController()
    first = running(controller)
    second = running(controller, 2)
    controller.group.members = SyncStateSet((1, 2), 2)
    controller.die(1)
    first.run(first.now_ms + 6_000)
    second.run(second.now_ms + 6_000)
    assert first.orders[-1] == Follow(2, 2, "host2:10911")
    assert second.orders[-1] == Become(2, SyncStateSet((2,), 3))


def test_a_group_without_master_is_asked_to_elect_one() -> None:
    controller = ScriptedController()
    life = running(controller)
    controller.group.alive.clear()
    controller.elect()
    assert controller.group.master is None
    assert not life.membership.is_vacant
    life.run(life.now_ms + 12_000)
    assert life.orders[-1] == Become(3, SyncStateSet((1,), 2))
    assert not life.membership.is_vacant


def test_a_role_that_the_controller_has_taken_back_is_vacant() -> None:
    controller = ScriptedController()
    life = running(controller)
    controller.group.alive.clear()
    controller.elect()
    while life.membership.phase is Phase.RUNNING and not life.membership.is_vacant:
        assert life.now_ms < 60_000
        life.step(lambda ask: ask.purpose is Purpose.ELECT)
    assert life.membership.is_vacant
    assert life.membership.epoch == 1, "nothing was ordered since"


def test_the_same_master_is_given_a_later_epoch() -> None:
    controller = ScriptedController()
    life = running(controller)
    controller.elect()
    life.run(life.now_ms + 6_000)
    assert life.took(Become) == [
        Become(1, SyncStateSet((1,), 1)),
        Become(2, SyncStateSet((1,), 2)),
    ]


def test_a_set_that_is_asked_for_is_taken() -> None:
    controller = ScriptedController()
    life = running(controller)
    running(controller, 2)
    life.membership.alter(SyncStateSet.of((2, 1), 1))
    life.step()
    assert life.orders[-1] == TakeSet(SyncStateSet((1, 2), 2))


def test_a_set_whose_answer_was_lost_is_taken_once_it_shows() -> None:
    controller = ScriptedController()
    life = running(controller)
    running(controller, 2)
    life.membership.alter(SyncStateSet((1, 2), 1))
    life.step(lambda ask: ask.purpose is Purpose.ALTER)
    life.run(life.now_ms + 6_000)
    assert life.took(RefuseSet) == []
    assert life.took(TakeSet) == [TakeSet(SyncStateSet((1, 2), 2))]


def test_a_set_that_was_refused_is_taken_back_when_the_controller_shows_the_old_one() -> None:
    controller = ScriptedController()
    life = running(controller)
    life.membership.alter(SyncStateSet((1, 9), 1))
    life.run(life.now_ms + 1_500)
    assert life.took(TakeSet) == []
    assert life.took(RefuseSet) == [RefuseSet(1)]
    assert life.membership.is_last(RefuseSet(1))
    assert life.membership.members == SyncStateSet((1,), 1)
    life.membership.alter(SyncStateSet((1, 2), 1))
    assert not life.membership.is_last(RefuseSet(1)), "another one may be taken meanwhile"


def refuse(life: Life, ids: tuple[int, ...]) -> None:
    """Has a set asked for, and refused."""
    life.membership.alter(SyncStateSet(ids, 1))
    (ask,) = (each for each in due(life) if each.purpose is Purpose.ALTER)
    life.membership.answered(ask, REFUSED, life.now_ms)


def due(life: Life) -> list[Ask]:
    """Returns what is due now."""
    return life.membership.due(life.now_ms, STANDING)


def test_a_set_that_was_asked_for_after_a_refused_one_is_not_taken_back_with_it() -> None:
    controller = ScriptedController()
    life = running(controller)
    running(controller, 2)
    refuse(life, (1, 9))
    # The group is looked at, and the next set is under way before that is answered.
    (look,) = (each for each in due(life) if each.purpose is Purpose.REPLICAS)
    shown = controller.answer(look)
    life.membership.alter(SyncStateSet((1, 2), 1))
    (ask,) = (each for each in due(life) if each.purpose is Purpose.ALTER)
    taken = controller.answer(ask)
    life.membership.answered(look, shown, life.now_ms)
    assert life.membership.take_orders() == []
    life.membership.answered(ask, taken, life.now_ms)
    assert life.membership.take_orders() == [TakeSet(SyncStateSet((1, 2), 2))]


def test_a_look_from_before_the_refusal_does_not_show_what_came_of_it() -> None:
    controller = ScriptedController()
    life = running(controller)
    running(controller, 2)
    while True:
        asks = due(life)
        looks = [each for each in asks if each.purpose is Purpose.REPLICAS]
        if looks:
            break
        life.now_ms += 1_000
    shown = controller.answer(looks[0])
    # A try without an answer was taken; the next one is refused for that.
    life.membership.alter(SyncStateSet((1, 2), 1))
    (ask,) = (each for each in due(life) if each.purpose is Purpose.ALTER)
    controller.answer(ask)
    life.membership.answered(ask, REFUSED, life.now_ms)
    life.membership.answered(looks[0], shown, life.now_ms)
    assert life.membership.take_orders() == []
    life.run(life.now_ms + 10)
    assert life.orders[-1] == TakeSet(SyncStateSet((1, 2), 2))


def suspect(controller: ScriptedController, number: int) -> Life:
    """Returns a member whose log may have lost its end."""
    life = Life(controller, number, identity=Identity("c", "b", number))
    life.membership.is_suspect = True
    return life


def test_a_log_that_may_have_lost_its_end_is_not_elected_for_what_it_had() -> None:
    controller = ScriptedController()
    running(controller)
    running(controller, 2)
    controller.group.members = SyncStateSet((1, 2), 2)
    controller.group.alive.discard(1)
    life = suspect(controller, 1)
    life.run(3_000)
    assert life.orders[:2] == [ForgetIdentity(), SettleEnd()]
    assert life.membership.identity == Identity("c", "b", 3)
    assert life.orders[-1] == Follow(2, 2, "host2:10911")


def test_the_last_of_a_set_is_master_again_whatever_it_lost() -> None:
    controller = ScriptedController()
    running(controller)
    running(controller, 2)
    controller.group.alive.clear()
    life = suspect(controller, 1)
    life.run(3_000)
    assert life.took(ForgetIdentity) == []
    assert life.orders[0] == SettleEnd()
    assert life.membership.is_master


def test_who_may_have_to_give_up_its_id_follows_nobody_under_it() -> None:
    controller = ScriptedController()
    running(controller)
    life = suspect(controller, 2)
    life.membership.notified(*controller.notice(), now_ms=life.now_ms)
    assert life.membership.take_orders() == []
    assert life.membership.epoch == 0


def test_a_forgotten_broker_registers_again() -> None:
    controller = ScriptedController()
    life = running(controller)
    controller.group.addresses.clear()
    life.run(life.now_ms + 7_000)
    assert life.membership.phase is Phase.LEADER_KNOWN
    assert "2010" in life.membership.why


@pytest.mark.parametrize("seed", range(40))
def test_whatever_is_lost_one_broker_is_master_of_an_epoch(seed: int) -> None:
    dice = random.Random(seed)
    controller = ScriptedController(("c0:1", "c1:1", "c2:1"))
    lives = [Life(controller, number) for number in (1, 2, 3)]
    masters: dict[int, int] = {}
    for _ in range(2_000):
        number = dice.randrange(len(lives))
        life = lives[number]
        life.step(lambda _ask: dice.random() < 0.3)
        if dice.random() < 0.02:
            controller.leader = dice.choice(controller.addresses)
        if dice.random() < 0.02 and controller.group.master is not None:
            controller.die(controller.group.master)
        if dice.random() < 0.3 and controller.group.epoch and controller.group.master is not None:
            life.membership.notified(*controller.notice(), now_ms=life.now_ms)
        if life.membership.is_master and dice.random() < 0.2:
            ids = dice.sample((1, 2, 3), dice.randrange(1, 4))
            life.membership.alter(SyncStateSet.of(ids, life.membership.members.epoch))
        for at, each in enumerate(lives):
            epochs = [o.epoch for o in each.orders if isinstance(o, Become | Follow)]
            assert epochs == sorted(set(epochs)), "an epoch changes a role once, and never back"
            for order in each.took(Become):
                assert isinstance(order, Become)
                assert masters.setdefault(order.epoch, at) == at
    # Then nothing is lost any more: everybody agrees.
    controller.leader = "c1:1"
    for _ in range(400):
        for life in lives:
            life.step()
    assert [life.membership.phase for life in lives] == [Phase.RUNNING] * 3
    assert {life.membership.epoch for life in lives} == {controller.group.epoch}
    ids = [life.membership.identity.broker_id for life in lives if life.membership.identity]
    assert sorted(ids) == sorted(set(ids))
    assert len(ids) == 3


def test_a_body_that_cannot_be_read_is_an_empty_set() -> None:
    assert SyncStateSet.parse(b"{no") == SyncStateSet()
    assert SyncStateSet.parse(b"") == SyncStateSet()
    body = b'{"syncStateSet":[3,1],"syncStateSetEpoch":7}'
    assert SyncStateSet.parse(body) == SyncStateSet((1, 3), 7)
    assert SyncStateSet((1, 3), 7).body() == b'{"syncStateSet":[1,3],"syncStateSetEpoch":7}'


def test_fields_that_are_missing_or_no_numbers_are_none() -> None:
    answer = Answer(ResponseCode.SUCCESS, "", {"masterEpoch": "x"})
    assert answer.number("masterEpoch") is None
    assert answer.number("masterBrokerId") is None
    assert answer.text("masterAddress") == ""
