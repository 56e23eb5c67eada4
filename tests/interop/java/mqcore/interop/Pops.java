package mqcore.interop;

import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.common.message.MessageQueue;

/**
 * What only push consumers of 5.x have: queues that the broker assigns, and messages by pop. Called
 * by name: these sources are compiled with 4.9, too.
 */
final class Pops {
    /** Pauses before a popped message that failed comes again; officially ten seconds and longer. */
    private static final int SOONEST_S = 1;

    private Pops() { }

    /** Lets the broker assign queues, and with that decide between pull and pop. */
    static void configure(DefaultMQPushConsumer consumer, Call call)
        throws ReflectiveOperationException {
        if (!call.flag("server_rebalance")) {
            return;
        }
        set(consumer, "setClientRebalance", boolean.class, false);
        int invisibleMs = call.number("invisible_ms", 0);
        if (invisibleMs > 0) {
            set(consumer, "setPopInvisibleTime", long.class, (long) invisibleMs);
        }
        int batch = call.number("pop_batch", 0);
        if (batch > 0) {
            set(consumer, "setPopBatchNums", int.class, batch);
        }
        Object inner = consumer.getDefaultMQPushConsumerImpl();
        Method levels = inner.getClass().getDeclaredMethod("getPopDelayLevel");
        levels.setAccessible(true);
        Arrays.fill((int[]) levels.invoke(inner), SOONEST_S);
    }

    /** The queues that a consumer pulls from or pops from. */
    static Collection<MessageQueue> queues(DefaultMQPushConsumer consumer)
        throws ReflectiveOperationException {
        Object balance = consumer.getDefaultMQPushConsumerImpl().getRebalanceImpl();
        List<MessageQueue> found = new ArrayList<>();
        for (String table : List.of("getProcessQueueTable", "getPopProcessQueueTable")) {
            try {
                Map<?, ?> queues = (Map<?, ?>) balance.getClass().getMethod(table).invoke(balance);
                queues.keySet().forEach(queue -> found.add((MessageQueue) queue));
            } catch (NoSuchMethodException e) {
                // Nothing is popped with 4.9.
                continue;
            }
        }
        return found;
    }

    private static void set(DefaultMQPushConsumer consumer, String method, Class<?> kind, Object value)
        throws ReflectiveOperationException {
        try {
            DefaultMQPushConsumer.class.getMethod(method, kind).invoke(consumer, value);
        } catch (InvocationTargetException e) {
            throw new IllegalArgumentException(e.getCause());
        }
    }
}
