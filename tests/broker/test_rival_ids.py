"""Two brokers with one id at a controller: a copied directory, a broker that has moved."""

import pytest

from broker.scripted_controller import ScriptedController
from broker.test_membership import STANDING, Life, running
from mqcore.broker.replication.controller_messages import (
    Answer,
    Ask,
    Member,
    Purpose,
    SyncStateSet,
)
from mqcore.broker.replication.identity import Identity
from mqcore.broker.replication.membership import Phase
from mqcore.broker.replication.orders import ForgetIdentity
from mqcore.model.controller_fields import CHECK_CODE, DECIDES, HOLDER, PROOFS
from mqcore.model.relaxed_json import compact
from mqcore.remoting import ResponseCode


def rival_of(controller: ScriptedController, number: int) -> Life:
    """Returns a member with the id of another one, at an address of its own: a copied directory."""
    life = Life(controller, 9, identity=Identity("c", "b", number))
    life.membership.member = Member("c", "b", "host9:10911", began_ms=1)
    return life


def holder_asked(life: Life, answer: Answer | None) -> None:
    """Goes on until whoever has the id is asked, and lets it answer."""
    while True:
        life.now_ms += 100
        for ask in life.membership.due(life.now_ms, STANDING):
            if ask.purpose is Purpose.HOLDER:
                assert ask.address == "host1:10911"
                life.membership.answered(ask, answer, life.now_ms)
                return
            life.membership.answered(ask, life.controller.answer(ask), life.now_ms)


@pytest.mark.parametrize("shown_id", [0, 1])
def test_a_copy_of_a_broker_that_lives_is_refused_and_registers_with_nobody(shown_id: int) -> None:
    controller = ScriptedController()
    running(controller)
    controller.heard.clear()
    life = rival_of(controller, 1)
    body = compact({"brokerId": shown_id, "brokerName": "b", "clusterName": "c"})
    holder_asked(life, Answer(0, "", {}, body))
    life.run(60_000)
    assert life.membership.rival == "host1:10911"
    assert "host1:10911 has the id 1 of b already" in life.membership.why
    assert {ask.purpose for ask in controller.heard} == {Purpose.LEADER, Purpose.SETS}
    assert controller.group.addresses == {1: "host1:10911"}
    assert life.orders == []


@pytest.mark.parametrize(
    "answer",
    [
        Answer(0, "", {}, b'{"brokerId":0,"brokerName":"other"}'),
        Answer(0, "", {}, b'{"brokerId":7,"brokerName":"b"}'),
        Answer(0, "", {}, b"nothing"),
        Answer(ResponseCode.SYSTEM_ERROR, "no controller"),
    ],
)
def test_somebody_else_at_an_address_of_before_is_no_rival(answer: Answer) -> None:
    controller = ScriptedController()
    running(controller)
    life = rival_of(controller, 1)
    holder_asked(life, answer)
    life.run(life.now_ms + 2_000)
    assert life.membership.rival == ""
    assert controller.group.addresses == {1: "host9:10911"}


def test_a_broker_that_moved_waits_until_it_is_known_that_nobody_is_where_it_was() -> None:
    controller = ScriptedController()
    running(controller)
    life = rival_of(controller, 1)
    for _ in range(3):
        holder_asked(life, None)
    assert controller.group.addresses == {1: "host1:10911"}
    controller.die(1)
    life.run(life.now_ms + 4_000)
    assert life.membership.rival == ""
    assert controller.group.addresses == {1: "host9:10911"}


class Deciding(ScriptedController):
    """A controller of mqcore: it knows the process of each broker."""

    def __init__(self) -> None:
        super().__init__()
        self.registering = Answer(0)

    def _sets(self, ask: Ask) -> Answer:
        found = super()._sets(ask)
        return Answer(found.code, found.remark, {DECIDES: "true"}, found.body)

    def _register(self, ask: Ask) -> Answer:
        if self.registering.code != ResponseCode.SUCCESS:
            return self.registering
        return super()._register(ask)


def process_of(controller: ScriptedController) -> Life:
    """Returns a process that names itself, at an address of its own."""
    life = rival_of(controller, 1)
    life.membership.member = Member(
        "c", "b", "host9:10911", began_ms=1, nonce="ab", proofs=("host1:10911;1001",)
    )
    return life


def test_a_process_names_itself_and_those_that_were_there_before() -> None:
    controller = Deciding()
    running(controller)
    controller.die(1)
    life = process_of(controller)
    life.run(2_000)
    (asked,) = (
        ask for ask in controller.heard if ask.purpose is Purpose.REGISTER and ask.ext.get(PROOFS)
    )
    assert asked.ext[CHECK_CODE] == "host9:10911;1;ab"
    assert asked.ext[PROOFS] == "host1:10911;1001"
    looks = [ask for ask in controller.heard if ask.purpose is Purpose.REPLICAS]
    assert looks == [] or looks[-1].ext[CHECK_CODE] == asked.ext[CHECK_CODE]


def test_where_nobody_answers_the_controller_decides_and_nobody_waits_for_its_time_out() -> None:
    controller = Deciding()
    running(controller)
    life = process_of(controller)
    holder_asked(life, None)
    controller.registering = Answer(ResponseCode.SYSTEM_BUSY, "known in a moment")
    life.run(life.now_ms + 600)
    assert controller.group.addresses == {1: "host1:10911"}
    controller.registering = Answer(0)
    life.run(life.now_ms + 600)
    assert controller.group.addresses == {1: "host9:10911"}


@pytest.mark.parametrize("purpose", [Purpose.REGISTER, Purpose.REPLICAS])
def test_a_process_whose_id_another_one_has_asks_nothing_more(purpose: Purpose) -> None:
    controller = Deciding()
    running(controller)
    controller.die(1)
    life = process_of(controller)
    refused = Answer(ResponseCode.CONTROLLER_BROKER_ID_INVALID, "it is alive", {HOLDER: "host1:1"})
    if purpose is Purpose.REGISTER:
        controller.registering = refused
    life.run(2_000)
    if purpose is Purpose.REPLICAS:
        while life.membership.rival == "":
            life.now_ms += 100
            for ask in life.membership.due(life.now_ms, STANDING):
                is_look = ask.purpose is purpose
                found = refused if is_look else controller.answer(ask)
                life.membership.answered(ask, found, life.now_ms)
    assert life.membership.rival == "host1:1"
    assert "it is alive" in life.membership.why
    controller.heard.clear()
    life.run(life.now_ms + 20_000)
    assert controller.heard == []


def test_a_broker_that_starts_again_in_the_set_keeps_its_id() -> None:
    controller = ScriptedController()
    running(controller)
    running(controller, 2)
    controller.group.members = SyncStateSet((1, 2), 2)
    for number in (1, 2):
        again = Life(controller, number, identity=Identity("c", "b", number))
        again.run(2_000)
        assert again.membership.identity == Identity("c", "b", number)
        assert again.took(ForgetIdentity) == []
        assert again.membership.phase is Phase.RUNNING


def test_a_copy_of_a_broker_is_refused_before_it_is_given_another_id() -> None:
    controller = ScriptedController()
    running(controller)
    running(controller, 2)
    controller.group.members = SyncStateSet((1, 2), 2)
    life = rival_of(controller, 1)
    life.membership.is_suspect = True
    holder_asked(life, Answer(0, "", {}, compact({"brokerId": 1, "brokerName": "b"})))
    life.run(10_000)
    assert life.membership.rival == "host1:10911"
    assert life.orders == []
