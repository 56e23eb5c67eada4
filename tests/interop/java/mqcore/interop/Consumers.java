package mqcore.interop;

import java.lang.reflect.Method;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.rocketmq.client.consumer.DefaultLitePullConsumer;
import org.apache.rocketmq.client.consumer.DefaultMQPullConsumer;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.MessageSelector;
import org.apache.rocketmq.client.consumer.PullResult;
import org.apache.rocketmq.client.consumer.PullStatus;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.ConsumeOrderlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.consumer.listener.MessageListenerOrderly;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueAveragely;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.utils.MessageUtil;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/** The official consumers that `Drive` drives, by name. */
final class Consumers {
    private static final int PULL_BATCH = 32;
    /** A retry comes after one second (the first level), not after ten. */
    private static final int SOONEST_LEVEL = 1;

    /** A running consumer: what it got, what it has, how it ends. */
    private static final class Running {
        final Deliveries deliveries = new Deliveries();
        Queues queues;
        Runnable commit;
        Runnable end;
    }

    @FunctionalInterface
    private interface Queues {
        Collection<MessageQueue> now() throws Exception;
    }

    private final Map<String, Running> running = new ConcurrentHashMap<>();

    List<?> push(Call call) throws Exception {
        Running run = new Running();
        DefaultMQPushConsumer consumer =
            new DefaultMQPushConsumer(call.text("group"), Signing.of(call),
                new AllocateMessageQueueAveragely(), call.flag("traced"), null);
        consumer.setNamesrvAddr(call.text("namesrv"));
        consumer.setInstanceName(call.name);
        consumer.setPollNameServerInterval(call.number("poll_ms", Drive.POLL_MS));
        consumer.setPersistConsumerOffsetInterval(Drive.POLL_MS);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.setMaxReconsumeTimes(call.number("max_reconsume", -1));
        consumer.setAllocateMessageQueueStrategy(Strategies.of(call));
        consumer.setConsumeThreadMin(2);
        consumer.setConsumeThreadMax(4);
        // Orderly consumers try again on the spot, after this pause.
        consumer.setSuspendCurrentQueueTimeMillis(100);
        if (call.flag("broadcast")) {
            broadcast(consumer);
        }
        Pops.configure(consumer, call);
        consumer.subscribe(call.text("topic"), selector(call));
        int failures = call.number("fail", 0);
        int slowMs = call.number("slow_ms", 0);
        String reply = call.text("reply", "");
        DefaultMQProducer replier = reply.isEmpty() ? null : replier(call);
        if (call.flag("order")) {
            consumer.registerMessageListener((MessageListenerOrderly) (messages, context) ->
                failed(run, messages, failures)
                    ? ConsumeOrderlyStatus.SUSPEND_CURRENT_QUEUE_A_MOMENT
                    : ConsumeOrderlyStatus.SUCCESS);
        } else {
            consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
                context.setDelayLevelWhenNextConsume(SOONEST_LEVEL);
                if (replier != null) {
                    messages.forEach(message -> reply(replier, message, reply));
                }
                boolean isFailed = failed(run, messages, failures);
                dawdle(run, messages, slowMs);
                return isFailed ? ConsumeConcurrentlyStatus.RECONSUME_LATER
                    : ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
            });
        }
        consumer.start();
        run.queues = () -> Pops.queues(consumer);
        run.commit = () -> consumer.getDefaultMQPushConsumerImpl().persistConsumerOffset();
        run.end = () -> {
            consumer.shutdown();
            if (replier != null) {
                replier.shutdown();
            }
        };
        running.put(call.name, run);
        return List.of();
    }

    private static MessageSelector selector(Call call) {
        String sql = call.text("sql", "");
        return sql.isEmpty() ? MessageSelector.byTag(call.text("expr", "*"))
            : MessageSelector.bySql(sql);
    }

    private static DefaultMQProducer replier(Call call) throws Exception {
        DefaultMQProducer producer = new DefaultMQProducer(call.text("group") + "_reply");
        producer.setNamesrvAddr(call.text("namesrv"));
        producer.setInstanceName(call.name + "-reply");
        producer.start();
        return producer;
    }

    private static void reply(DefaultMQProducer producer, MessageExt request, String text) {
        byte[] body = (text + ": " + new String(request.getBody(), StandardCharsets.UTF_8))
            .getBytes(StandardCharsets.UTF_8);
        try {
            producer.send(MessageUtil.createReplyMessage(request, body), 10_000);
        } catch (Exception e) {
            throw new IllegalStateException(e);
        }
    }

    /** The class of the models is in different packages of the two major versions. */
    @SuppressWarnings({"unchecked", "rawtypes"})
    private static void broadcast(DefaultMQPushConsumer consumer) throws Exception {
        for (Method method : DefaultMQPushConsumer.class.getMethods()) {
            if (method.getName().equals("setMessageModel")) {
                Class<?> models = method.getParameterTypes()[0];
                method.invoke(consumer, Enum.valueOf((Class) models, "BROADCASTING"));
            }
        }
    }

    private static boolean failed(Running run, List<MessageExt> messages, int failures) {
        boolean isFailed = false;
        for (MessageExt message : messages) {
            int times = run.deliveries.add(message);
            isFailed |= failures < 0 || times <= failures;
        }
        return isFailed;
    }

    /** A message that comes for the first time is slow. */
    private static void dawdle(Running run, List<MessageExt> messages, int slowMs) {
        try {
            for (MessageExt message : messages) {
                if (slowMs > 0 && run.deliveries.times(message) == 1) {
                    Thread.sleep(slowMs);
                }
            }
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }

    List<?> lite(Call call) throws Exception {
        Running run = new Running();
        DefaultLitePullConsumer consumer = new DefaultLitePullConsumer(call.text("group"));
        consumer.setNamesrvAddr(call.text("namesrv"));
        consumer.setInstanceName(call.name);
        consumer.setPollNameServerInterval(Drive.POLL_MS);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        String topic = call.text("topic");
        List<MessageQueue> assigned = new ArrayList<>();
        if (!call.flag("assign")) {
            consumer.subscribe(topic, selector(call));
        }
        consumer.start();
        if (call.flag("assign")) {
            assigned.addAll(consumer.fetchMessageQueues(topic));
            consumer.assign(assigned);
            int left = call.number("before", 0);
            while (left > 0) {
                left -= consumer.poll(100).size();
            }
            for (MessageQueue queue : assigned) {
                consumer.seek(queue, call.number("seek", 0));
            }
        }
        Thread poller = new Thread(() -> {
            while (!Thread.currentThread().isInterrupted() && consumer.isRunning()) {
                consumer.poll(100).forEach(run.deliveries::add);
            }
        }, "poll-" + call.name);
        poller.setDaemon(true);
        poller.start();
        run.queues = () -> call.flag("assign") ? assigned : consumer.assignment();
        run.end = () -> {
            poller.interrupt();
            consumer.shutdown();
        };
        running.put(call.name, run);
        return List.of();
    }

    List<?> pull(Call call) throws Exception {
        DefaultMQPullConsumer consumer = new DefaultMQPullConsumer(call.text("group"));
        consumer.setNamesrvAddr(call.text("namesrv"));
        consumer.setInstanceName(call.name);
        consumer.setPollNameServerInterval(Drive.POLL_MS);
        consumer.start();
        try {
            List<Object> messages = new ArrayList<>();
            for (MessageQueue queue : consumer.fetchSubscribeMessageQueues(call.text("topic"))) {
                long next = consumer.minOffset(queue);
                long end = consumer.maxOffset(queue);
                while (next < end) {
                    PullResult pulled =
                        consumer.pull(queue, call.text("expr", "*"), next, PULL_BATCH);
                    if (pulled.getPullStatus() == PullStatus.FOUND) {
                        pulled.getMsgFoundList().forEach(m -> messages.add(Deliveries.read(m)));
                    }
                    if (pulled.getNextBeginOffset() <= next) {
                        throw new IllegalStateException("no way on: " + pulled);
                    }
                    next = pulled.getNextBeginOffset();
                }
                consumer.updateConsumeOffset(queue, next);
            }
            return messages;
        } finally {
            consumer.shutdown();
        }
    }

    List<?> got(Call call) throws Exception {
        Deliveries deliveries = one(call).deliveries;
        Drive.await(call, () -> deliveries.differentCount() >= call.number("count", 0));
        return deliveries.items();
    }

    /** A client does so by itself, for the first time ten seconds after its start. */
    List<?> commit(Call call) {
        one(call).commit.run();
        return List.of();
    }

    List<?> allocated(Call call) throws Exception {
        Running run = one(call);
        String topic = call.text("topic");
        List<Object> queues = new ArrayList<>();
        long deadline = call.deadline();
        while (true) {
            queues.clear();
            for (MessageQueue queue : run.queues.now()) {
                if (queue.getTopic().equals(topic)) {
                    queues.add(Map.of("queue_id", queue.getQueueId()));
                }
            }
            boolean isSettled = queues.size() == call.number("count", 0);
            if (isSettled || System.currentTimeMillis() > deadline) {
                return queues;
            }
            Thread.sleep(10);
        }
    }

    void close(String name) {
        Running run = running.remove(name);
        if (run != null) {
            run.end.run();
        }
    }

    private Running one(Call call) {
        Running run = running.get(call.name);
        if (run == null) {
            throw new IllegalArgumentException("no consumer " + call.name);
        }
        return run;
    }
}
