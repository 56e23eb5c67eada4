"""Consumers of a group through joins, leaves, crashes, broker restarts and slow handlers.

In virtual time against a model of the brokers, from seeds. What must hold: no message is lost; one
comes again only where at-least-once allows it; an orderly queue keeps its order.
"""

import asyncio
from dataclasses import dataclass, field
from random import Random
from typing import Any

import pytest

from client.model_cluster import ModelCluster, ModelInstance
from client.virtual_loop import run_virtually, virtual_loop
from mqcore.client.message import ReceivedMessage
from mqcore.client.outcomes import Retry
from mqcore.client.push_consumer import PushConsumer
from mqcore.client.starting_offset import ConsumeFrom

TOPIC, GROUP = "T", "g"
QUEUES = 3
SEEDS = range(8)


@dataclass
class Life:
    """A consumer and its process."""

    instance: ModelInstance
    consumer: PushConsumer
    opened: int = 0


@dataclass
class World:
    """A cluster, its consumers, and everything that was sent and consumed."""

    random: Random
    cluster: ModelCluster
    is_orderly: bool
    lives: dict[str, Life] = field(default_factory=dict)
    dead: list[Life] = field(default_factory=list)
    sent: list[bytes] = field(default_factory=list)
    # What was consumed to its end: the body, by whom, after how many divisions there, topic
    # and offset: a message that was given back has another one.
    done: list[tuple[bytes, str, int, str, int]] = field(default_factory=list)
    running: dict[tuple[str, int], str] = field(default_factory=dict)
    overlaps: int = 0
    is_calm: bool = False
    number: int = 0

    def send(self) -> None:
        broker = self.random.choice(list(self.cluster.brokers.values()))
        if not broker.is_up:
            return
        queue_id = self.random.randrange(QUEUES)
        offset = len(broker.queues.get((TOPIC, queue_id), []))
        body = f"{broker.name}/{queue_id}/{offset}".encode()
        broker.append(TOPIC, queue_id, body)
        self.sent.append(body)

    async def handle(self, life_id: str, message: ReceivedMessage) -> Any:
        life = self.lives.get(life_id)
        queue = message.queue.broker_name, message.queue.queue_id
        if self.is_orderly and life is not None and not life.instance.is_dead:
            self.overlaps += self.running.get(queue, life_id) != life_id
            self.running[queue] = life_id
        try:
            await asyncio.sleep(self.random.choice((0.0, 0.001, 0.05, 0.5, 2.0)))
            luck = self.random.random()
            if not self.is_calm:
                if luck < 0.01:
                    # An orderly one is waited for at a hand-over, but not for ever.
                    await asyncio.sleep(8.0 if self.is_orderly else 200.0)
                if luck < 0.04:
                    raise ValueError("a handler that fails")
                if luck < 0.06:
                    return Retry(delay=1)
        finally:
            if self.is_orderly and self.running.get(queue) == life_id:
                del self.running[queue]
        if life is not None and not life.instance.is_dead:
            topic_and_offset = message.queue.topic, message.queue_offset
            self.done.append((message.body, life_id, life.opened, *topic_and_offset))
        return None

    async def join(self) -> None:
        self.number += 1
        life_id = f"10.0.0.{self.number}@1"
        instance = ModelInstance(self.cluster, life_id)

        async def handler(message: ReceivedMessage) -> Any:
            return await self.handle(life_id, message)

        def rebalanced(*_: object) -> None:
            life.opened += 1

        consumer = PushConsumer(
            group=GROUP,
            handler=handler,
            topics=TOPIC,
            instance=instance.as_instance(),
            orderly=self.is_orderly,
            consume_from=ConsumeFrom.FIRST_OFFSET,
            consume_timeout_s=60.0,
            reconsume_max=1000,
            concurrency=4,
            count_max=40,
            span_max=100,
            on_rebalance=rebalanced,
            now_ms=virtual_loop().now_ms,
        )
        life = self.lives[life_id] = Life(instance, consumer)
        await consumer.start()

    async def leave(self) -> None:
        if len(self.lives) > 1:
            life_id = self.random.choice(list(self.lives))
            await self.lives[life_id].consumer.close()
            del self.lives[life_id]

    def crash(self) -> None:
        if len(self.lives) > 1:
            life = self.lives.pop(self.random.choice(list(self.lives)))
            life.instance.kill()
            self.dead.append(life)
            # Its handlers ended with it.
            for queue, owner in list(self.running.items()):
                if owner == life.instance.client_id:
                    del self.running[queue]

    async def restart(self) -> None:
        broker = self.random.choice(list(self.cluster.brokers.values()))
        broker.crash()
        await asyncio.sleep(self.random.uniform(0.1, 20.0))
        broker.is_up = True

    def snapshot(self) -> None:
        for broker in self.cluster.brokers.values():
            if broker.is_up:
                broker.snapshot = dict(broker.offsets)

    async def disturb(self, *, has_restarts: bool) -> None:
        chance = self.random.random()
        if chance < 0.3 and len(self.lives) < 5:
            await self.join()
        elif chance < 0.5:
            await self.leave()
        elif chance < 0.7:
            self.crash()
        elif chance < 0.8 and has_restarts:
            await self.restart()

    async def until_all_done(self) -> None:
        wanted = set(self.sent)
        for _ in range(2_000):
            if wanted <= {body for body, *_ in self.done}:
                return
            await asyncio.sleep(5.0)
        missing = wanted - {body for body, *_ in self.done}
        raise AssertionError(f"{len(missing)} of {len(wanted)} were lost: {sorted(missing)[:5]}")

    async def end(self) -> None:
        for life in [*self.lives.values(), *self.dead]:
            await life.consumer.close()


async def _world(seed: int, *, is_orderly: bool, loss: float = 0.0) -> World:
    random = Random(seed)
    cluster = ModelCluster(("a", "b"), random, loss=loss)
    cluster.queues_of[TOPIC] = QUEUES
    world = World(random, cluster, is_orderly)
    await world.join()
    return world


async def _story(world: World, *, steps: int, has_restarts: bool = True) -> None:
    for _ in range(steps):
        for _ in range(world.random.randrange(20)):
            world.send()
        world.snapshot()
        await asyncio.sleep(world.random.uniform(0.0, 10.0))
        await world.disturb(has_restarts=has_restarts)
    world.is_calm = True
    await world.until_all_done()
    await world.end()


@pytest.mark.parametrize("seed", SEEDS)
def test_no_message_is_lost_whatever_happens(seed: int) -> None:
    async def scenario() -> World:
        world = await _world(seed, is_orderly=False, loss=0.01)
        await _story(world, steps=40)
        return world

    world = run_virtually(scenario())
    assert len(world.sent) > 200


@pytest.mark.parametrize("seed", SEEDS)
def test_an_orderly_queue_keeps_its_order(seed: int) -> None:
    async def scenario() -> World:
        world = await _world(seed, is_orderly=True)
        # A restarted broker has forgotten its locks: two members may then hold one for a while.
        await _story(world, steps=40, has_restarts=False)
        return world

    world = run_virtually(scenario())
    assert len(world.sent) > 200
    first: dict[str, list[int]] = {}
    seen = set()
    for body, *_ in world.done:
        if body not in seen:
            seen.add(body)
            queue, _, offset = body.decode().rpartition("/")
            first.setdefault(queue, []).append(int(offset))
    assert len(first) == 2 * QUEUES
    for queue, offsets in first.items():
        assert offsets == list(range(len(offsets))), queue
    assert world.overlaps == 0


@pytest.mark.parametrize("is_orderly", [False, True])
@pytest.mark.parametrize("seed", SEEDS)
def test_who_keeps_a_queue_consumes_nothing_twice(seed: int, *, is_orderly: bool) -> None:
    async def scenario() -> World:
        world = await _world(seed, is_orderly=is_orderly)
        await _story(world, steps=40, has_restarts=False)
        return world

    world = run_virtually(scenario())
    assert len(world.done) == len(set(world.done))


@pytest.mark.parametrize("is_orderly", [False, True])
def test_undisturbed_nothing_comes_twice(*, is_orderly: bool) -> None:
    async def scenario() -> World:
        world = await _world(1, is_orderly=is_orderly)
        await world.join()
        await asyncio.sleep(5.0)
        world.is_calm = True
        for _ in range(30):
            for _ in range(10):
                world.send()
            await asyncio.sleep(1.0)
        await world.until_all_done()
        await world.end()
        return world

    world = run_virtually(scenario())
    bodies = [body for body, *_ in world.done]
    assert sorted(bodies) == sorted(world.sent)
    offsets = {
        queue: offset
        for broker in world.cluster.brokers.values()
        for (_, queue), offset in broker.offsets.items()
        if queue.topic == TOPIC
    }
    ends = {
        (broker.name, queue_id): len(stored)
        for broker in world.cluster.brokers.values()
        for (topic, queue_id), stored in broker.queues.items()
        if topic == TOPIC
    }
    assert {(q.broker_name, q.queue_id): offset for q, offset in offsets.items()} == ends
