package mqcore.interop;

import java.net.Inet6Address;
import java.net.InetSocketAddress;
import java.net.SocketAddress;
import java.nio.ByteBuffer;
import java.security.MessageDigest;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.rocketmq.common.message.MessageDecoder;
import org.apache.rocketmq.common.message.MessageExt;

/**
 * Whole records, as a broker sends them, in the words of the golden manifests. The official
 * MessageDecoder reads them: once as stored, once with the body inflated.
 */
final class Records {
    private Records() { }

    /** Reads records that follow one another to the end of `bytes`. */
    static List<Map<String, Object>> read(byte[] bytes) throws Exception {
        List<Map<String, Object>> found = new ArrayList<>();
        ByteBuffer all = ByteBuffer.wrap(bytes);
        while (all.remaining() > 8) {
            int size = all.getInt(all.position());
            found.add(fields(all.slice(all.position(), size)));
            all.position(all.position() + size);
        }
        return found;
    }

    private static Map<String, Object> fields(ByteBuffer record) throws Exception {
        int magic = record.getInt(4);
        MessageExt stored = MessageDecoder.decode(record.duplicate(), true, false, false);
        MessageExt message = MessageDecoder.decode(record.duplicate(), true, true, false);
        if (stored == null || message == null) {
            throw new IllegalStateException("MessageDecoder refuses a record of the broker");
        }
        byte[] storedBody = stored.getBody() == null ? new byte[0] : stored.getBody();
        byte[] body = message.getBody() == null ? new byte[0] : message.getBody();
        Map<String, Object> line = new LinkedHashMap<>();
        line.put("topic", message.getTopic());
        line.put("queue_id", message.getQueueId());
        line.put("queue_offset", message.getQueueOffset());
        line.put("physical_offset", message.getCommitLogOffset());
        line.put("store_size", message.getStoreSize());
        line.put("magic", String.format("%08x", magic));
        // As stored: the decoder of 5.x clears the compression bit when it inflates the body.
        line.put("sys_flag", stored.getSysFlag());
        line.put("flag", message.getFlag());
        line.put("born_timestamp", message.getBornTimestamp());
        line.put("store_timestamp", message.getStoreTimestamp());
        line.put("born_host", host(message.getBornHost()));
        line.put("store_host", host(message.getStoreHost()));
        line.put("reconsume_times", message.getReconsumeTimes());
        line.put("prepared_transaction_offset", message.getPreparedTransactionOffset());
        line.put("body_crc", stored.getBodyCRC());
        line.put("stored_body_length", storedBody.length);
        line.put("body_length", body.length);
        line.put("body_sha256", sha256(body));
        if (storedBody.length != body.length) {
            line.put("stored_body_sha256", sha256(storedBody));
        }
        line.put("tags", message.getTags());
        line.put("keys", message.getKeys());
        line.put("properties", new TreeMap<>(message.getProperties()));
        line.put("msg_id", message.getMsgId());
        line.put("uniq_key", message.getProperty("UNIQ_KEY"));
        return line;
    }

    private static String host(SocketAddress address) {
        InetSocketAddress inet = (InetSocketAddress) address;
        String ip = inet.getAddress().getHostAddress();
        boolean isV6 = inet.getAddress() instanceof Inet6Address;
        return (isV6 ? "[" + ip + "]" : ip) + ":" + inet.getPort();
    }

    private static String sha256(byte[] bytes) throws Exception {
        return HexFormat.of().formatHex(MessageDigest.getInstance("SHA-256").digest(bytes));
    }
}
