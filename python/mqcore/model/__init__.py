"""What messages, queues, groups and topics are, in values. Pure; no room above is known here."""
