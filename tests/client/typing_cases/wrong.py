"""Wrong uses of the client's options: a type checker finds a mistake in each marked line.

Read by type checkers, never run.
"""

import mqcore
from mqcore import aio


def handle(message: mqcore.ReceivedMessage) -> None:
    print(message.body)


def handle_as_text(message: mqcore.ReceivedMessage) -> str:
    return message.body_text()


def handle_batch(messages: list[mqcore.ReceivedMessage]) -> None:
    print(len(messages))


client = mqcore.Client()
mqcore.Producer(retrys=2)  # mistake: no such option
aio.Producer(retries="2")  # mistake: a text for an int
client.producer(timeout_s="3")  # mistake: a text for a number
mqcore.Producer(orderly=True)  # mistake: an option of consumers
mqcore.PushConsumer(group="g", handler=handle, orderley=True)  # mistake: no such option
aio.PullConsumer(group="g", consume_from="earliestt")  # mistake: no such word
mqcore.PushConsumer(group="g", handler=handle_as_text)  # mistake: returns a text
mqcore.PushConsumer(group="g", handler=handle_batch)  # mistake: takes a list, and no `batch`
mqcore.Message("orders", 5)  # mistake: a number as a body
mqcore.PullConsumer(group="g", topics=5)  # mistake: a number as topics
client.pull_consumer(group=7)  # mistake: a number as a group
aio.Client(namesrv=9876)  # mistake: a number as an address
