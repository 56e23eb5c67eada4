"""Sets of which a master does not know whether its controller will take them."""

from broker.scripted_controller import ScriptedController
from broker.test_membership import Life, due, running
from mqcore.broker.replication.controller_messages import Ask, Purpose, SyncStateSet
from mqcore.broker.replication.orders import RefuseSet, TakeSet
from mqcore.remoting import ResponseCode


def two_tries(controller: ScriptedController) -> tuple[Life, Ask]:
    """Returns a master that has asked for a set twice, and the first try, which is on its way.

    The second one was refused: the slave was not heard of just then.
    """
    life = running(controller)
    running(controller, 2)
    life.membership.alter(SyncStateSet((1, 2), 1))
    (first,) = (each for each in due(life) if each.purpose is Purpose.ALTER)
    life.membership.answered(first, None, life.now_ms)
    controller.group.alive.discard(2)
    while life.took(RefuseSet) == [] and life.took(TakeSet) == []:
        life.step()
    controller.group.alive.add(2)
    return life, first


def test_an_earlier_try_that_comes_late_is_refused_before_its_set_is_taken_back() -> None:
    controller = ScriptedController()
    life, first = two_tries(controller)
    # The controller has refused what may come: sends wait for nobody who was asked for.
    assert life.took(RefuseSet) == []
    assert life.took(TakeSet) == [TakeSet(SyncStateSet((1,), 2))]
    late = controller.answer(first)
    assert late is not None
    assert late.code == ResponseCode.CONTROLLER_FENCED_SYNC_STATE_SET_EPOCH
    assert controller.group.members == SyncStateSet((1,), 2)
    # The set that is wanted is asked for anew.
    life.membership.alter(SyncStateSet((1, 2), 2))
    life.run(life.now_ms + 100)
    assert life.orders[-1] == TakeSet(SyncStateSet((1, 2), 3))


def test_a_controller_of_rocketmq_may_take_an_earlier_try_later() -> None:
    controller = ScriptedController()
    controller.fences = False
    life, first = two_tries(controller)
    assert life.took(RefuseSet) == [RefuseSet(1)]
    late = controller.answer(first)
    assert late is not None
    assert late.code == ResponseCode.SUCCESS
    life.run(life.now_ms + 6_000)
    assert life.orders[-1] == TakeSet(SyncStateSet((1, 2), 2))


def test_a_set_whose_only_try_was_refused_needs_no_fence() -> None:
    controller = ScriptedController()
    life = running(controller)
    life.membership.alter(SyncStateSet((1, 9), 1))
    life.run(life.now_ms + 1_500)
    assert Purpose.FENCE not in {ask.purpose for ask in controller.heard}
    assert life.took(RefuseSet) == [RefuseSet(1)]
