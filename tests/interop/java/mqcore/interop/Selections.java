package mqcore.interop;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.rocketmq.client.consumer.DefaultMQPullConsumer;
import org.apache.rocketmq.client.consumer.MessageSelector;
import org.apache.rocketmq.client.consumer.PullResult;
import org.apache.rocketmq.client.consumer.PullStatus;
import org.apache.rocketmq.client.exception.MQClientException;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/** What expressions select of a topic, by an official pull consumer that brings them. */
final class Selections {
    private static final String SEPARATOR = "\u001f";
    private static final int PULL_BATCH = 32;
    private static final int RETRY_MS = 50;

    private Selections() { }

    /** The users' numbers of the messages, in order of queue and offset, for each expression. */
    static List<?> select(Call call) throws Exception {
        DefaultMQPullConsumer consumer = new DefaultMQPullConsumer(call.text("group"));
        consumer.setNamesrvAddr(call.text("namesrv"));
        consumer.setInstanceName(call.name);
        consumer.start();
        try {
            List<Object> items = new ArrayList<>();
            for (String sql : call.text("sqls").split(SEPARATOR, -1)) {
                Map<String, Object> item = new LinkedHashMap<>();
                item.put("sql", sql);
                item.put("numbers", selected(consumer, call, MessageSelector.bySql(sql)));
                items.add(item);
            }
            return items;
        } finally {
            consumer.shutdown();
        }
    }

    private static List<String> selected(
        DefaultMQPullConsumer consumer, Call call, MessageSelector selector) throws Exception {
        List<String> numbers = new ArrayList<>();
        for (MessageQueue queue : consumer.fetchSubscribeMessageQueues(call.text("topic"))) {
            long next = consumer.minOffset(queue);
            long end = consumer.maxOffset(queue);
            while (next < end) {
                PullResult pulled = pulled(consumer, call, queue, selector, next);
                if (pulled.getPullStatus() == PullStatus.FOUND) {
                    for (MessageExt message : pulled.getMsgFoundList()) {
                        numbers.add(message.getUserProperty("number"));
                    }
                }
                if (pulled.getNextBeginOffset() <= next) {
                    throw new IllegalStateException("no way on: " + pulled);
                }
                next = pulled.getNextBeginOffset();
            }
        }
        return numbers;
    }

    /** A client knows the version of a broker, which it wants to know first, by its heartbeats. */
    private static PullResult pulled(DefaultMQPullConsumer consumer, Call call, MessageQueue queue,
        MessageSelector selector, long next) throws Exception {
        while (true) {
            try {
                return consumer.pull(queue, selector, next, PULL_BATCH);
            } catch (MQClientException e) {
                boolean isEarly = String.valueOf(e.getMessage()).contains("does not upgrade");
                if (!isEarly || System.currentTimeMillis() > call.deadline()) {
                    throw e;
                }
                Thread.sleep(RETRY_MS);
            }
        }
    }
}
