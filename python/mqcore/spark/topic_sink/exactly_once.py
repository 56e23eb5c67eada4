"""Exactly once: tasks send half messages, the driver decides an epoch, and commits what it decided.

    task        sends its rows as half messages, and reports to the driver where they are
    commit      writes the decision of the epoch: the half messages of the attempts that count
                commits them, one by one
    afterwards  whoever finds the decision goes by it: a commit that is repeated after a crash, and
                the answers to brokers that ask

A reader sees an epoch in parts, while its half messages are committed.
"""

import logging
from collections.abc import Sequence
from typing import Final

from mqcore.client.message import ReceivedMessage
from mqcore.errors import MQError
from mqcore.spark.errors import SinkError, SparkError
from mqcore.spark.topic_sink.answering import Answerer
from mqcore.spark.topic_sink.decisions import Decisions
from mqcore.spark.topic_sink.epochs import Decision
from mqcore.spark.topic_sink.options import ClientOptions, SinkOptions
from mqcore.spark.topic_sink.sending import TopicClient, topic_client
from mqcore.spark.topic_sink.settling import Settling, queue_ends
from mqcore.spark.topic_sink.task import TaskReport
from mqcore.spark.topic_source.cluster import Access, Cluster, cluster_of

__all__ = ["Epochs", "exact_client"]

_log = logging.getLogger(__name__)
_MS_PER_S: Final = 1000


def exact_client(options: SinkOptions) -> TopicClient:
    """Returns the client of this process that sends half messages, and answers for them.

    Raises:
        MQError: The options cannot work.
    """

    def make(client_options: ClientOptions) -> TopicClient:
        return made_client(options, client_options)

    return topic_client(options.client, f"exactly-once {options.decision_topic}", make)


def made_client(options: SinkOptions, client_options: ClientOptions) -> TopicClient:
    """Returns a new client that sends half messages, and answers for them."""
    cluster = _cluster(options)
    answerers: list[Answerer] = []

    def check(half: ReceivedMessage) -> bool | None:
        return answerers[0](half) if answerers else None

    client = TopicClient(client_options, check)
    answerer = Answerer(cluster, _decisions(options, cluster, client))
    answerer.settles_with(Settling(client, cluster, options))
    answerers.append(answerer)
    return client


def _cluster(options: SinkOptions) -> Cluster:
    client = options.client
    return cluster_of(
        Access(
            client.namesrv,
            client.access_key,
            client.secret_key,
            client.security_token,
            client.tls,
            options.request_timeout_ms / _MS_PER_S,
            options.retries,
            options.retry_backoff_ms / _MS_PER_S,
        )
    )


def _decisions(options: SinkOptions, cluster: Cluster, client: TopicClient) -> Decisions:
    return Decisions(cluster, client.full_name(options.decision_topic))


class Epochs:
    """Commits epochs, and gives them up."""

    def __init__(self, options: SinkOptions, client: TopicClient) -> None:
        """Takes how rows are written, and with whom."""
        self._client = client
        self._cluster = _cluster(options)
        self._decisions = _decisions(options, self._cluster, client)
        self._settling = Settling(client, self._cluster, options)

    def check_there(self) -> None:
        """Checks that decisions can be found and written.

        Raises:
            MQError: They cannot.
        """
        self._decisions.queue()

    def commit(self, reports: Sequence[TaskReport], batch: int) -> None:
        """Commits the rows of an epoch; returns when all of them can be read.

        The same epoch may be committed again, with other reports: what was decided first counts.

        Args:
            reports: What the tasks reported, of the attempts that count.
            batch: The batch.

        Raises:
            SinkError: It is not decided, or not committed whole; it may be tried again.
        """
        if not reports:
            return
        try:
            self._commit(reports, batch)
        except SparkError:
            raise
        except MQError as error:
            raise SinkError(f"batch {batch} is not committed: {error.message}") from error

    def _commit(self, reports: Sequence[TaskReport], batch: int) -> None:
        query = reports[0].mark.query
        fresh = tuple(half for report in reports for half in report.halves)
        # Before the decision: see `settling`.
        links = self._settling.links(fresh)
        known = self._decisions.find(query, batch)
        if known is None and not fresh:
            return
        if known is None:
            starts = queue_ends(self._cluster, fresh)
            made = Decision(query, batch, self._client.group, fresh, starts)
            known = self._decisions.write(self._client, made)
            is_ours = known == made
        else:
            is_ours = False
            _log.warning("batch %d was decided before: what was decided then counts", batch)
        self._settling.commit(known, links if is_ours else None)
        counted = set(known.halves)
        others = [each for each in fresh if each not in counted]
        self._settling.roll_back(self._client.group, others)

    def abort(self, reports: Sequence[TaskReport], batch: int, *, is_whole: bool) -> None:
        """Rolls back what tasks sent, where nothing can have been decided.

        Args:
            reports: What the tasks reported that came to their ends.
            batch: The batch.
            is_whole: Whether all did: then its commit may have been tried.
        """
        if is_whole:
            _log.warning("batch %d was given up behind its tasks: brokers will ask", batch)
            return
        halves = [half for report in reports for half in report.halves]
        self._settling.roll_back(self._client.group, halves)
