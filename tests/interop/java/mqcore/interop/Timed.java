package mqcore.interop;

import java.lang.reflect.InvocationTargetException;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageAccessor;

/** What only clients of 5.x can do, called by name: these sources are compiled with 4.9, too. */
final class Timed {
    private Timed() { }

    static void set(Message message, Call call) throws ReflectiveOperationException {
        set(message, "setDelayTimeSec", call.text("delay_s", ""));
        set(message, "setDelayTimeMs", call.text("delay_ms", ""));
        set(message, "setDeliverTimeMs", call.text("deliver_ms", ""));
        String property = call.text("property", "");
        if (!property.isEmpty()) {
            String[] parts = property.split(":", 2);
            MessageAccessor.putProperty(message, parts[0], parts[1]);
        }
    }

    private static void set(Message message, String method, String value)
        throws ReflectiveOperationException {
        if (!value.isEmpty()) {
            Message.class.getMethod(method, long.class).invoke(message, Long.parseLong(value));
        }
    }

    /** What takes a message back; null from a client that knows of none. */
    static String handle(SendResult sent) {
        try {
            return (String) SendResult.class.getMethod("getRecallHandle").invoke(sent);
        } catch (ReflectiveOperationException e) {
            return null;
        }
    }

    static String recall(DefaultMQProducer producer, String topic, String handle) throws Exception {
        try {
            return (String) DefaultMQProducer.class
                .getMethod("recallMessage", String.class, String.class)
                .invoke(producer, topic, handle);
        } catch (InvocationTargetException e) {
            throw (Exception) e.getCause();
        }
    }
}
