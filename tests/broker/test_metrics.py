"""A broker's snapshot becomes Prometheus text that Prometheus itself reads back."""

from prometheus_client.parser import text_string_to_metric_families

from mqcore.broker.metrics import GroupLag, Snapshot, TopicFlow, exposition, parsed_labels

COMMON = {"cluster": "c", "node_type": "broker", "node_id": "b"}


def samples(snapshot: Snapshot) -> dict[str, list[tuple[dict[str, str], float]]]:
    """Returns labels, but for the common ones, and numbers of each metric."""
    found: dict[str, list[tuple[dict[str, str], float]]] = {}
    for family in text_string_to_metric_families(exposition(snapshot).decode()):
        for sample in family.samples:
            labels = dict(sample.labels)
            for name, text in COMMON.items():
                assert labels.pop(name) == text
            found.setdefault(sample.name, []).append((labels, sample.value))
    return found


def test_the_names_are_those_of_rocketmq() -> None:
    found = samples(
        Snapshot(
            cluster="c",
            node_id="b",
            permission=6,
            topics=3,
            groups=2,
            flows=(TopicFlow("t", 10), TopicFlow("RMQ_SYS_X", 1, is_system=True)),
            lags=(GroupLag("g", "t", 7), GroupLag("g", "%RETRY%g", 1, is_retry=True)),
            producers={("JAVA", "V4_9_8"): 2},
            consumers={("g", "GO", "V5_3_3"): 1},
            divided={"g": 2},
            conflicts=3,
            messages_in=11,
            messages_out=5,
            bytes_in=1100,
            bytes_out=500,
            refused={"busy": 3},
            closed={"slow": 1},
            waiting={"send": 4, "pull": 9},
            storage_bytes=1 << 40,
            flush_behind_bytes=42,
            dispatch_behind_bytes=1,
            reserve_ms=60_000,
            memory={"locked": 5},
        )
    )
    assert found["rocketmq_messages_in_total"] == [
        ({"topic": "t", "is_system": "false"}, 10.0),
        ({"topic": "RMQ_SYS_X", "is_system": "true"}, 1.0),
    ]
    assert found["rocketmq_consumer_lag_messages"] == [
        ({"consumer_group": "g", "topic": "t", "is_retry": "false"}, 7.0),
        ({"consumer_group": "g", "topic": "%RETRY%g", "is_retry": "true"}, 1.0),
    ]
    assert found["rocketmq_producer_connections"] == [
        ({"language": "JAVA", "version": "V4_9_8"}, 2.0)
    ]
    assert found["rocketmq_consumer_connections"] == [
        ({"consumer_group": "g", "language": "GO", "version": "V5_3_3"}, 1.0)
    ]
    local = {"storage_type": "local", "storage_medium": "disk"}
    assert found["rocketmq_storage_size"] == [(local, float(1 << 40))]
    assert found["rocketmq_storage_flush_behind_bytes"] == [(local, 42.0)]
    assert found["rocketmq_storage_dispatch_behind_bytes"] == [(local, 1.0)]
    assert found["rocketmq_storage_message_reserve_time"] == [(local, 60_000.0)]
    assert found["rocketmq_processor_watermark"] == [
        ({"processor": "send"}, 4.0),
        ({"processor": "pull"}, 9.0),
    ]
    plain = {
        "rocketmq_broker_permission": 6,
        "rocketmq_topic_number": 3,
        "rocketmq_consumer_group_number": 2,
        "mqcore_sends_total": 11,
        "rocketmq_messages_out_total": 5,
        "rocketmq_throughput_in_total": 1100,
        "rocketmq_throughput_out_total": 500,
        "mqcore_broker_healthy": 1,
        "mqcore_subscription_conflicts_total": 3,
    }
    assert {name: found[name] for name in plain} == {
        name: [({}, float(number))] for name, number in plain.items()
    }
    assert found["mqcore_inconsistent_subscriptions"] == [({"consumer_group": "g"}, 2.0)]
    assert found["mqcore_refused_total"] == [({"reason": "busy"}, 3.0)]
    assert found["mqcore_connections_closed_total"] == [({"reason": "slow"}, 1.0)]


def test_a_fault_is_a_number_too() -> None:
    found = samples(Snapshot(cluster="c", node_id="b", faults=("the disk is full",)))
    assert found["mqcore_broker_healthy"] == [({}, 0.0)]


def test_names_with_anything_in_them_do_not_break_the_text() -> None:
    odd = 'a"b\\c\nd{}=,上海'
    found = samples(Snapshot(cluster="c", node_id="b", flows=(TopicFlow(odd, 1),)))
    assert found["rocketmq_messages_in_total"][0][0]["topic"] == odd


def test_labels_of_the_settings_are_on_every_metric() -> None:
    labels = parsed_labels("zone:a, rack : 7,broken,:x,cluster:mine,9:no,__name__:no,")
    assert labels == {"zone": "a", "rack": "7", "cluster": "mine"}
    found = samples(Snapshot(cluster="c", node_id="b", labels=labels, topics=1))
    assert found["rocketmq_topic_number"] == [({"zone": "a", "rack": "7"}, 1.0)]
