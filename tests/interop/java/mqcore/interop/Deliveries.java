package mqcore.interop;

import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.rocketmq.common.message.MessageClientExt;
import org.apache.rocketmq.common.message.MessageExt;

/** What one consumer was given, in order of arrival; safe for the client's threads. */
final class Deliveries {
    /** A longer body is reported as null with its length and digest. */
    private static final int SHOWN_BYTES = 64;

    private final List<Map<String, Object>> items = new ArrayList<>();
    private final Map<String, Integer> times = new HashMap<>();

    /** Notes a delivery; returns how often this message came until now, this time included. */
    synchronized int add(MessageExt message) {
        items.add(read(message));
        return times.merge(keyOf(message), 1, Integer::sum);
    }

    /** How often a message came until now. */
    synchronized int times(MessageExt message) {
        return times.getOrDefault(keyOf(message), 0);
    }

    private static String keyOf(MessageExt message) {
        return message.getTopic() + "/" + new String(message.getBody(), StandardCharsets.UTF_8);
    }

    /** How many came that differ in topic or body (5.3.3 gives all of a batch one id). */
    synchronized int differentCount() {
        return times.size();
    }

    synchronized List<?> items() {
        return new ArrayList<>(items);
    }

    static Map<String, Object> read(MessageExt message) {
        Map<String, Object> item = new TreeMap<>();
        item.put("topic", message.getTopic());
        item.put("queue_id", message.getQueueId());
        item.put("queue_offset", message.getQueueOffset());
        item.put("msg_id", message.getMsgId());
        item.put("offset_msg_id", message instanceof MessageClientExt client
            ? client.getOffsetMsgId() : message.getMsgId());
        item.put("tags", message.getTags());
        item.put("keys", message.getKeys());
        item.put("number", message.getUserProperty("number"));
        item.put("reconsume_times", message.getReconsumeTimes());
        item.put("sys_flag", message.getSysFlag());
        item.put("born_timestamp", message.getBornTimestamp());
        item.put("store_timestamp", message.getStoreTimestamp());
        item.put("retry_topic", message.getProperty("RETRY_TOPIC"));
        // There where a consumer has sent the message itself that it could not give back.
        item.put("reconsume_property", message.getProperty("RECONSUME_TIME"));
        body(item, message.getBody());
        return item;
    }

    static void body(Map<String, Object> item, byte[] body) {
        boolean isShort = body.length <= SHOWN_BYTES;
        item.put("body", isShort ? new String(body, StandardCharsets.UTF_8) : null);
        item.put("body_length", body.length);
        try {
            MessageDigest sha256 = MessageDigest.getInstance("SHA-256");
            item.put("body_sha256", HexFormat.of().formatHex(sha256.digest(body)));
        } catch (NoSuchAlgorithmException e) {
            throw new IllegalStateException(e);
        }
    }
}
