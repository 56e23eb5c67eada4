package mqcore.interop;

import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.rocketmq.client.producer.LocalTransactionState;
import org.apache.rocketmq.client.producer.TransactionListener;
import org.apache.rocketmq.client.producer.TransactionMQProducer;
import org.apache.rocketmq.client.producer.TransactionSendResult;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;

/** The official producers of transactions that `Drive` drives, by name. */
final class Transactions {
    private static final int TIMEOUT_MS = 20_000;

    /** One producer with what it decided, and what it was asked. */
    private static final class Decider implements TransactionListener {
        final Map<String, LocalTransactionState> decisions = new ConcurrentHashMap<>();
        final List<Map<String, Object>> asked = Collections.synchronizedList(new ArrayList<>());
        TransactionMQProducer producer;

        @Override
        public LocalTransactionState executeLocalTransaction(Message message, Object state) {
            return (LocalTransactionState) state;
        }

        @Override
        public LocalTransactionState checkLocalTransaction(MessageExt message) {
            String body = new String(message.getBody(), StandardCharsets.UTF_8);
            Map<String, Object> item = new TreeMap<>();
            item.put("body", body);
            item.put("topic", message.getTopic());
            item.put("times", message.getProperty("TRANSACTION_CHECK_TIMES"));
            item.put("transaction_id", message.getTransactionId());
            asked.add(item);
            return decisions.getOrDefault(body, LocalTransactionState.UNKNOW);
        }
    }

    private final Map<String, Decider> deciders = new ConcurrentHashMap<>();

    List<?> start(Call call) throws Exception {
        Decider decider = new Decider();
        TransactionMQProducer producer = new TransactionMQProducer(call.text("group"));
        producer.setNamesrvAddr(call.text("namesrv"));
        producer.setInstanceName(call.name);
        producer.setPollNameServerInterval(Drive.POLL_MS);
        // A broker asks whom it knows by a heartbeat: every two seconds rather than every thirty.
        producer.setHeartbeatBrokerInterval(Drive.POLL_MS);
        producer.setSendMsgTimeout(TIMEOUT_MS);
        producer.setTransactionListener(decider);
        producer.start();
        decider.producer = producer;
        deciders.put(call.name, decider);
        return List.of();
    }

    List<?> half(Call call) throws Exception {
        byte[] body = call.text("body").getBytes(StandardCharsets.UTF_8);
        Message message = new Message(call.text("topic"), call.text("tags", ""), body);
        message.setKeys(call.text("body"));
        if (!call.text("immune", "").isEmpty()) {
            message.putUserProperty("CHECK_IMMUNITY_TIME_IN_SECONDS", call.text("immune"));
        }
        TransactionSendResult sent = decider(call).producer.sendMessageInTransaction(message,
            state(call.text("state")));
        Map<String, Object> item = new TreeMap<>();
        item.put("status", sent.getSendStatus().name());
        item.put("state", sent.getLocalTransactionState().name());
        item.put("msg_id", sent.getMsgId());
        item.put("queue_offset", sent.getQueueOffset());
        return List.of(item);
    }

    List<?> decide(Call call) {
        decider(call).decisions.put(call.text("body"), state(call.text("state")));
        return List.of();
    }

    List<?> asked(Call call) {
        return new ArrayList<>(decider(call).asked);
    }

    void close(String name) {
        Decider decider = deciders.remove(name);
        if (decider != null) {
            decider.producer.shutdown();
        }
    }

    private static LocalTransactionState state(String name) {
        return switch (name) {
            case "commit" -> LocalTransactionState.COMMIT_MESSAGE;
            case "rollback" -> LocalTransactionState.ROLLBACK_MESSAGE;
            default -> LocalTransactionState.UNKNOW;
        };
    }

    private Decider decider(Call call) {
        Decider decider = deciders.get(call.name);
        if (decider == null) {
            throw new IllegalArgumentException("no producer of transactions " + call.name);
        }
        return decider;
    }
}
