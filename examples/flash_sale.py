"""A flash sale: orders in transactions, the unpaid cancelled after a while, dead letters looked at.

python examples/flash_sale.py [name server]      sells three pieces to five buyers

- An order and the message about it are both stored or neither is: a transaction. A crash between
  the two is no loss: the broker asks `was_it_ordered`.
- Each order sets a reminder, a message that arrives only after PAY_WITHIN_LEVEL: whoever has not
  paid by then gives the piece back.
- A payment that cannot be booked is put aside, among the dead letters; somebody looks at it.
"""

import json
import logging
import sqlite3
import sys
import threading
from contextlib import ExitStack

import mqcore

PIECES = 3
PAY_WITHIN_LEVEL = 2  # of the broker's delay levels: 5 s
LOGGER = logging.getLogger("sale")


class Shop:
    """Stock and orders; the database of the shop."""

    def __init__(self, pieces: int) -> None:
        """Opens with some pieces."""
        self._gate = threading.Lock()
        self._rows = sqlite3.connect(":memory:", check_same_thread=False, isolation_level=None)
        self._rows.execute("create table orders (buyer text primary key, state text)")
        self._pieces = pieces
        self.settled = threading.Semaphore(0)

    def order(self, buyer: str) -> None:
        """Takes an order, one per buyer; raises when everything is sold."""
        with self._gate:
            if len(self._in("ordered", "paid")) >= self._pieces:
                raise SoldOutError(buyer)
            self._rows.execute("insert into orders values (?, 'ordered')", [buyer])

    def move(self, buyer: str, before: str, after: str) -> bool:
        """Moves an order on once, however often it is asked to; returns whether it did."""
        with self._gate:
            change = "update orders set state = ? where buyer = ? and state = ?"
            return self._rows.execute(change, [after, buyer, before]).rowcount == 1

    def states(self, *states: str) -> list[str]:
        """Returns the buyers whose orders are in one of these states."""
        with self._gate:
            return self._in(*states)

    def _in(self, *states: str) -> list[str]:
        rows = self._rows.execute("select buyer, state from orders order by buyer")
        return [buyer for buyer, state in rows if state in states]


class SoldOutError(Exception):
    """Nothing is left."""


def sell(producer: mqcore.TransactionProducer, shop: Shop, buyer: str) -> bool:
    """Takes an order and sends a message about it, or does neither."""
    body = json.dumps({"buyer": buyer})
    try:
        with producer.transaction() as transaction:
            transaction.send(mqcore.Message("orders", body, keys=buyer))
            shop.order(buyer)
    except SoldOutError:
        return False
    return True


def run(namesrv: str, buyers: list[str], broke: str) -> Shop:
    """Sells to buyers: the first one forgets to pay, the card of `broke` is refused."""
    shop = Shop(PIECES)

    def was_it_ordered(message: mqcore.ReceivedMessage) -> mqcore.TransactionState:
        known = json.loads(message.body)["buyer"] in shop.states("ordered", "paid", "cancelled")
        return mqcore.TransactionState.COMMIT if known else mqcore.TransactionState.ROLLBACK

    def remind(message: mqcore.ReceivedMessage) -> None:
        later = mqcore.Message("unpaid", message.body, delay_level=PAY_WITHIN_LEVEL)
        producer.send(later)

    def pay(message: mqcore.ReceivedMessage) -> None:
        buyer = json.loads(message.body)["buyer"]
        if buyer == broke:
            raise mqcore.Reject(f"the card of {buyer} is refused")
        if buyer != buyers[0] and shop.move(buyer, "ordered", "paid"):
            LOGGER.info("%s has paid", buyer)

    def cancel(message: mqcore.ReceivedMessage) -> None:
        buyer = json.loads(message.body)["buyer"]
        if shop.move(buyer, "ordered", "cancelled"):
            LOGGER.info("%s did not pay in time", buyer)
        shop.settled.release()

    def call(message: mqcore.ReceivedMessage) -> None:
        LOGGER.info("somebody should call %s", message.keys[0])
        shop.settled.release()

    work = (
        ("reminders", "orders", remind),
        ("payments", "orders", pay),
        ("cancellations", "unpaid", cancel),
        ("desk", "%DLQ%payments", call),
    )
    producer = mqcore.TransactionProducer(namesrv, group="shop", check=was_it_ordered)
    with ExitStack() as open_now:
        open_now.enter_context(producer)
        sold = [buyer for buyer in buyers if sell(producer, shop, buyer)]
        LOGGER.info("sold to %s", ", ".join(sold))
        for group, topic, handler in work:
            consumer = mqcore.PushConsumer(
                namesrv,
                group=group,
                topics=topic,
                handler=handler,
                consume_from=mqcore.ConsumeFrom.FIRST_OFFSET,
                # The topic of dead letters is made with the first of them: look for it often.
                rebalance_interval_s=0.5,
            )
            open_now.enter_context(consumer)
        # Each order was looked at when its time was over, and one dead letter came.
        for _ in range(len(sold) + 1):
            shop.settled.acquire()
    return shop


def main(namesrv: str = "127.0.0.1:9876") -> None:
    """Runs one sale."""
    shop = run(namesrv, ["ann", "bob", "cid", "dan", "eve"], broke="bob")
    LOGGER.info("paid: %s; cancelled: %s", shop.states("paid"), shop.states("cancelled"))


if __name__ == "__main__":
    logging.basicConfig(format="%(message)s", stream=sys.stdout)
    LOGGER.setLevel(logging.INFO)
    main(*sys.argv[1:])
