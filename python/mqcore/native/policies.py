"""What the fast path is given of the broker's settings and state, as the extension takes it.

Made from the tables of settings by `python -m mqcore.config.derived`; a test keeps it current.
"""

from typing import NamedTuple

__all__ = ["BrokerPolicy", "PopPolicy", "TimingPolicy", "WaitPolicy"]


class WaitPolicy(NamedTuple):
    """How many requests may wait on the fast path.

    Attributes:
        pulls_max: Pulls that wait for messages at the most, some 500 bytes each; beyond it they are
            refused with code 2 (`heldPullsMax`).
        pulls_per_connection_max: The same per connection, and of pops and notifications: a consumer
            holds one per queue (`heldPullsPerConnectionMax`).
        pulls_per_queue_max: Pulls that one connection may hold at one queue: a client holds one per
            group (`heldPullsPerQueueMax`).
        sends_max: Sends that wait for their sync or their replicas at the most; beyond it they are
            refused with code 2 (`parkedSendsMax`).
        sends_per_connection_max: The same per connection (`parkedSendsPerConnectionMax`).
    """

    pulls_max: int = 262_144
    pulls_per_connection_max: int = 65_536
    pulls_per_queue_max: int = 1_024
    sends_max: int = 131_072
    sends_per_connection_max: int = 16_384


class TimingPolicy(NamedTuple):
    """Messages with a time of their own.

    Attributes:
        is_recall_enabled_read_only: Timed messages may be recalled while the broker takes none
            (`allowRecallWhenBrokerNotWriteable`).
        is_recall_enabled: Whether timed messages may be recalled (`recallMessageEnable`).
        max_delay_ms: How far ahead a timed message may be due, seconds (`timerMaxDelaySec`; here in
            ms).
        is_enabled: Whether messages with a time of their own are taken (`timerWheelEnable`).
        congested_at: From so many messages of one step on some are refused, from twice as many all
            (`timerCongestNumEachSlot`).
        is_recalled_by_topic: Whether a recall names the topic beside the unique key, as 5.3 writes
            it; false before the directory goes to 5.5; read are both
            (`appendTopicForTimerDeleteKey`).
        ahead_ms: How far the timers' clock is ahead of the wall clock.
    """

    is_recall_enabled_read_only: bool = True
    is_recall_enabled: bool = False
    max_delay_ms: int = 259_200_000
    is_enabled: bool = True
    congested_at: int = 2_147_483_647
    is_recalled_by_topic: bool = True
    ahead_ms: int = 0


class PopPolicy(NamedTuple):
    """Pops.

    Attributes:
        held_per_line: Pops held per topic, group and queue (`popPollingSize`).
        held_max: Pops held at all (`maxPopPollingSize`).
        revive_queues: Queues of the topic of check points of pops (`reviveQueueNum`).
        has_buffer: Keep pops in memory first: what is acknowledged soon is never stored
            (`enablePopBufferMerge`).
        stay_ms: How long a pop is kept in memory, ms (`popCkStayBufferTime`).
        stored_before_ms: How long before its messages come back a pop is stored at the latest, ms
            (`popCkStayBufferTimeOut`).
        kept_max: Pops kept in memory at the most (`popCkMaxBufferSize`).
        kept_per_queue_max: Pops of one queue kept in memory at the most
            (`popCkOffsetMaxQueueSize`).
        begins_in_memory: A new group that pops from the end gets all of a queue that is young
            (`initPopOffsetByCheckMsgInMem`).
        reads_retry_v1: Read retry topics of the first kind too where the second is on
            (`retrieveMessageFromPopRetryTopicV1`).
        has_retry_v2: Popped messages come back in %RETRY%group+topic, not %RETRY%group_topic
            (`enableRetryTopicV2`).
        retry_first_percent: How often in a hundred a pop looks at the retry topic first
            (`popFromRetryProbability`).
        names_retry_topic: Answers to pops name the retry topic
            (`popResponseReturnActualRetryTopic`).
        in_flight_max: Messages of a queue that a group may pop and not acknowledge, with
            enablePopMessageThreshold (`popInflightMessageThreshold`).
        bounds_in_flight: A group that has more than popInflightMessageThreshold messages of a queue
            gets no others of it (`enablePopMessageThreshold`).
        priority_retry_first_percent: How often in a hundred a pop by priorities looks at the retry
            topic first (`popFromRetryProbabilityForPriority`).
        is_priority_ascending: Whether pops by priorities read the queue with the highest number
            first (`priorityOrderAsc`).
    """

    held_per_line: int = 1_024
    held_max: int = 100_000
    revive_queues: int = 8
    has_buffer: bool = True
    stay_ms: int = 10_000
    stored_before_ms: int = 3_000
    kept_max: int = 200_000
    kept_per_queue_max: int = 20_000
    begins_in_memory: bool = True
    reads_retry_v1: bool = True
    has_retry_v2: bool = False
    retry_first_percent: int = 20
    names_retry_topic: bool = False
    in_flight_max: int = 10_000
    bounds_in_flight: bool = False
    priority_retry_first_percent: int = 0
    is_priority_ascending: bool = True


class BrokerPolicy(NamedTuple):
    """The broker, as the fast path needs it.

    Attributes:
        address: Address that clients are to dial; empty: found out (`brokerIP1`).
        name: Name of the broker (`brokerName`).
        cluster: Name of the cluster (`brokerClusterName`).
        perm: What clients may do: 4 read, 2 write, 6 both (`brokerPermission`).
        rejects_transactions: Refuse half messages, so that nothing new can be part of a transaction
            (`rejectTransactionMessage`).
        is_long_polling: Hold a pull that finds nothing until a message comes (`longPollingEnable`).
        short_polling_ms: How long a pull is held without long polling, ms
            (`shortPollingTimeMills`).
        region: Reported to clients for their traces (`regionId`).
        is_replica_readable: Whether consumers are sent to read at the broker of their group's
            settings: `brokerId`, and `whichBrokerWhenConsumeSlowly` when they are far behind
            (`slaveReadEnable`).
        send_wait_max_ms: How long a send may wait for the next log file before it is refused as
            busy, ms (`waitTimeMillsInSendQueue`).
        accepts_sends_from_ms: Sends are refused before this moment, ms of the epoch
            (`startAcceptSendRequestTimeStamp`).
        is_traced: Let clients trace (`traceOn`).
        filters_retries: Put retries through the filter for the topic they came from
            (`filterSupportRetry`).
        filters_properties: Take SQL92 filters over properties of messages (`enablePropertyFilter`).
        transaction_timeout_ms: Age from which on a half message without an end is asked about, ms
            (`transactionTimeOut`).
        note_bytes_max: Bytes of a note about many ends of transactions; notes of one end each below
            version 5.1 (`transactionOpMsgMaxSize`).
        note_interval_ms: How long an end may wait to be noted with others, ms; noted at once below
            version 5.1 (`transactionOpBatchInterval`).
        checks_offsets: Let a slave answer a pull of an offset that it does not have as a master
            does: false sends it to the master, or lets it wait while there is none
            (`offsetCheckInSlave`).
        times_requests: The time of requests is counted by stage, and the slowest are kept: `mqcore
            broker slow`, `mqcore_request_stage_seconds`, `rocketmq_rpc_latency_milliseconds`
            (`requestTimesEnable`).
        quotas: How much users, topics and groups may send and read a second, such as user:shop=prod
            ucer_byte_rate:1048576;topic:orders*=producer_message_rate:1000,consumer_byte_rate:41943
            04: what comes too fast is held back; see docs/limits.md (`mqcoreQuotas`).
        refuse_sends: Where it is set every send is refused with this remark (empty: the official
            one).
        refuse_sends_code: The code of that refusal; 2 is the official one of a broker that takes no
            more.
        refuse_pulls: The same for pulls.
        needs_check: Hand over every request first.
        passes_on: Hand over every request that the master alone may execute: another broker is
            master, or soon is.
        is_slave: It follows a master.
        has_master: Of a slave: its master is there.
        sends_back: Of a slave: consumers that are not far behind are sent to the master.
        needs_replica: Answers to sends wait for replicas.
        version: The version in every answer, an ordinal of `MQVersion`.
        timing: Messages with a time of their own.
        pops: Pops.
        waits: How many requests may wait.
    """

    address: str = ""
    name: str = ""
    cluster: str = "DefaultCluster"
    perm: int = 6
    rejects_transactions: bool = False
    is_long_polling: bool = True
    short_polling_ms: int = 1_000
    region: str = "DefaultRegion"
    is_replica_readable: bool = False
    send_wait_max_ms: int = 200
    accepts_sends_from_ms: int = 0
    is_traced: bool = True
    filters_retries: bool = False
    filters_properties: bool = False
    transaction_timeout_ms: int = 6_000
    note_bytes_max: int = 4_096
    note_interval_ms: int = 3_000
    checks_offsets: bool = False
    times_requests: bool = True
    quotas: str = ""
    refuse_sends: str | None = None
    refuse_sends_code: int = 2
    refuse_pulls: str | None = None
    needs_check: bool = False
    passes_on: bool = False
    is_slave: bool = False
    has_master: bool = False
    sends_back: bool = False
    needs_replica: bool = False
    version: int = 409
    timing: TimingPolicy = TimingPolicy()
    pops: PopPolicy = PopPolicy()
    waits: WaitPolicy = WaitPolicy()
