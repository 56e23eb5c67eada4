package mqcore.interop;

import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.rocketmq.client.exception.MQClientException;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendCallback;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.producer.SendStatus;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/** The official producers that `Drive` drives, by name. */
final class Producers {
    private static final int TIMEOUT_MS = 20_000;
    private static final int QUERY_MAX = 64;
    /** A query throws for a topic without a route and where nothing is found. */
    private static final List<Integer> NOTHING_THERE = List.of(17, 208);

    private final Map<String, DefaultMQProducer> producers = new ConcurrentHashMap<>();
    private final Map<String, Flood> floods = new ConcurrentHashMap<>();

    List<?> start(Call call) throws Exception {
        DefaultMQProducer producer = new DefaultMQProducer(call.text("group"), Signing.of(call));
        producer.setNamesrvAddr(call.text("namesrv"));
        producer.setInstanceName(call.name);
        producer.setPollNameServerInterval(call.number("poll_ms", Drive.POLL_MS));
        producer.setSendMsgTimeout(call.number("timeout_ms", TIMEOUT_MS));
        producer.setRetryTimesWhenSendFailed(call.number("retries", 2));
        producer.setCompressMsgBodyOverHowmuch(call.number("compress_over", 1 << 23));
        producer.start();
        producers.put(call.name, producer);
        return List.of();
    }

    List<?> send(Call call) throws Exception {
        DefaultMQProducer producer = producer(call);
        List<Message> messages = new ArrayList<>();
        for (int i = 0; i < call.number("count", 1); i++) {
            messages.add(message(call, i));
        }
        return switch (call.text("how", "sync")) {
            case "async" -> async(producer, messages);
            case "batch" -> List.of(result(producer.send(messages), null));
            case "oneway" -> {
                for (Message message : messages) {
                    producer.sendOneway(message);
                }
                yield List.of();
            }
            case "selector" -> {
                List<Object> results = new ArrayList<>();
                for (int i = 0; i < messages.size(); i++) {
                    results.add(result(producer.send(messages.get(i),
                        (queues, message, number) -> queues.get((Integer) number % queues.size()),
                        i), messages.get(i)));
                }
                yield results;
            }
            default -> {
                List<Object> results = new ArrayList<>();
                for (Message message : messages) {
                    results.add(result(producer.send(message), message));
                }
                yield results;
            }
        };
    }

    private static List<?> async(DefaultMQProducer producer, List<Message> messages)
        throws Exception {
        List<Object> results = Collections.synchronizedList(new ArrayList<>());
        CountDownLatch left = new CountDownLatch(messages.size());
        for (Message message : messages) {
            producer.send(message, new SendCallback() {
                @Override
                public void onSuccess(SendResult sent) {
                    results.add(result(sent, message));
                    left.countDown();
                }

                @Override
                public void onException(Throwable e) {
                    results.add(Map.of("status", e.toString()));
                    left.countDown();
                }
            });
        }
        if (!left.await(2L * TIMEOUT_MS, TimeUnit.MILLISECONDS)) {
            throw new IllegalStateException(left.getCount() + " callbacks did not come");
        }
        return results;
    }

    private static Message message(Call call, int number)
        throws ReflectiveOperationException {
        byte[] text = (call.text("body") + "-" + number).getBytes(StandardCharsets.UTF_8);
        byte[] body = Arrays.copyOf(text, Math.max(text.length, call.number("size", 0)));
        if ("random".equals(call.text("fill", "same"))) {
            byte[] noise = new byte[body.length - text.length];
            new Random(number).nextBytes(noise);
            System.arraycopy(noise, 0, body, text.length, noise.length);
        } else {
            Arrays.fill(body, text.length, body.length, (byte) '.');
        }
        String tags = call.text("tags", "");
        String[] choices = tags.split(",");
        Message message = new Message(call.text("topic"),
            tags.isEmpty() ? null : choices[number % choices.length], body);
        if (!call.text("keys", "").isEmpty()) {
            message.setKeys(call.text("keys") + "-" + number);
        }
        message.putUserProperty("number", Integer.toString(number));
        if (call.number("delay", 0) > 0) {
            message.setDelayTimeLevel(call.number("delay", 0));
        }
        Timed.set(message, call);
        return message;
    }

    List<?> recall(Call call) throws Exception {
        String id = Timed.recall(producer(call), call.text("topic"), call.text("handle"));
        return List.of(Map.of("msg_id", id));
    }

    private static Map<String, Object> result(SendResult sent, Message message) {
        Map<String, Object> result = new TreeMap<>();
        result.put("status", sent.getSendStatus().name());
        result.put("msg_id", sent.getMsgId());
        result.put("offset_msg_id", sent.getOffsetMsgId());
        result.put("queue_id", sent.getMessageQueue().getQueueId());
        result.put("queue_offset", sent.getQueueOffset());
        result.put("recall_handle", Timed.handle(sent));
        if (message != null) {
            Deliveries.body(result, message.getBody());
        }
        return result;
    }

    /** Sends on some threads and notes what was acknowledged. */
    private static final class Flood {
        final List<String> acknowledged = Collections.synchronizedList(new ArrayList<>());
        final List<String> failures = Collections.synchronizedList(new ArrayList<>());
        final List<Thread> threads = new ArrayList<>();
        final int pauseMs;
        volatile boolean isOver;

        Flood(DefaultMQProducer producer, String topic, String prefix, int threadCount,
            int pauseMs) {
            this.pauseMs = pauseMs;
            for (int number = 0; number < threadCount; number++) {
                String begin = prefix + "-" + number + "-";
                Thread thread = new Thread(() -> pour(producer, topic, begin), "flood");
                thread.setDaemon(true);
                thread.start();
                threads.add(thread);
            }
        }

        private void pour(DefaultMQProducer producer, String topic, String begin) {
            for (int i = 0; !isOver; i++) {
                String body = begin + i;
                try {
                    SendResult sent =
                        producer.send(new Message(topic, body.getBytes(StandardCharsets.UTF_8)));
                    if (sent.getSendStatus() == SendStatus.SEND_OK) {
                        acknowledged.add(body);
                    } else {
                        failures.add(body + ": " + sent.getSendStatus());
                    }
                    Thread.sleep(pauseMs);
                } catch (Exception e) {
                    // A broker that is gone acknowledges nothing; whoever floods goes on.
                    failures.add(body + ": " + e);
                    Thread.yield();
                }
            }
        }
    }

    List<?> flood(Call call) {
        floods.put(call.name, new Flood(producer(call), call.text("topic"), call.text("body"),
            call.number("threads", 4), call.number("pause_ms", 0)));
        return List.of();
    }

    /** What a flood could not have acknowledged so far. */
    List<?> failures(Call call) {
        List<Object> failures = new ArrayList<>();
        for (String failure : new ArrayList<>(floods.get(call.name).failures)) {
            failures.add(Map.of("failure", failure));
        }
        return failures;
    }

    List<?> acknowledged(Call call) throws Exception {
        List<String> acknowledged = floods.get(call.name).acknowledged;
        Drive.await(call, () -> acknowledged.size() >= call.number("count", 0));
        return List.of(Map.of("count", acknowledged.size()));
    }

    List<?> flooded(Call call) throws Exception {
        Flood flood = floods.remove(call.name);
        flood.isOver = true;
        for (Thread thread : flood.threads) {
            thread.join(3L * TIMEOUT_MS);
        }
        List<Object> bodies = new ArrayList<>();
        for (String body : new ArrayList<>(flood.acknowledged)) {
            bodies.add(Map.of("body", body));
        }
        return bodies;
    }

    List<?> view(Call call) throws Exception {
        return List.of(Deliveries.read(producer(call).viewMessage(call.text("topic"),
            call.text("id"))));
    }

    List<?> query(Call call) throws Exception {
        List<Object> found = new ArrayList<>();
        try {
            for (MessageExt message : producer(call).queryMessage(call.text("topic"),
                call.text("key"), QUERY_MAX, 0, Long.MAX_VALUE).getMessageList()) {
                found.add(Deliveries.read(message));
            }
        } catch (MQClientException e) {
            if (!NOTHING_THERE.contains(e.getResponseCode())) {
                throw e;
            }
        }
        return found;
    }

    List<?> bounds(Call call) throws Exception {
        DefaultMQProducer producer = producer(call);
        List<Object> queues = new ArrayList<>();
        for (MessageQueue queue : producer.fetchPublishMessageQueues(call.text("topic"))) {
            queues.add(Map.of("queue_id", queue.getQueueId(), "min", producer.minOffset(queue),
                "max", producer.maxOffset(queue)));
        }
        return queues;
    }

    List<?> search(Call call) throws Exception {
        DefaultMQProducer producer = producer(call);
        List<Object> queues = new ArrayList<>();
        for (MessageQueue queue : producer.fetchPublishMessageQueues(call.text("topic"))) {
            queues.add(Map.of("queue_id", queue.getQueueId(),
                "offset", producer.searchOffset(queue, Long.parseLong(call.text("time")))));
        }
        return queues;
    }

    void close(String name) {
        DefaultMQProducer producer = producers.remove(name);
        if (producer != null) {
            producer.shutdown();
        }
    }

    private DefaultMQProducer producer(Call call) {
        DefaultMQProducer producer = producers.get(call.name);
        if (producer == null) {
            throw new IllegalArgumentException("no producer " + call.name);
        }
        return producer;
    }
}
