"""What messages, queues, groups and topics are, in values. Pure; knows no module above."""
