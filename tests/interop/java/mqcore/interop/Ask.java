package mqcore.interop;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Base64;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.rocketmq.common.MQVersion;
import org.apache.rocketmq.remoting.netty.NettyClientConfig;
import org.apache.rocketmq.remoting.netty.NettyRemotingClient;
import org.apache.rocketmq.remoting.protocol.RemotingCommand;

/**
 * Asks official brokers, for as long as its standard input is open. A question is one line of
 * fields between tabs, the broker's address first; the answer is one line per item and then one
 * with `done` or `refused`. The requests go to the broker itself, so that no name server is needed,
 * and are built of plain fields, whose names both major versions share.
 *
 * ADDRESS offsets TOPIC QUEUE            one line: min_offset, max_offset
 * ADDRESS pull TOPIC QUEUE FROM          one line per message, up to the queue's end
 * ADDRESS query TOPIC KEY BEGIN END      one line per message, as the broker orders them
 * ADDRESS unique TOPIC KEY               the same by unique key
 * ADDRESS search TOPIC QUEUE TIME        one line: offset
 * ADDRESS status                         one line: what the broker reports of itself
 * ADDRESS send TOPIC QUEUE TEXT BODY     one line: queue_offset, msg_id; properties' text and body
 *                                        in base 64; refused unless the broker answers SEND_OK
 */
public final class Ask {
    private static final int SEND_MESSAGE = 10;
    private static final int PULL_MESSAGE = 11;
    private static final int QUERY_MESSAGE = 12;
    private static final int BROKER_RUNTIME_INFO = 28;
    private static final int SEARCH_OFFSET_BY_TIMESTAMP = 29;
    private static final int MAX_OFFSET = 30;
    private static final int MIN_OFFSET = 31;

    private static final int SUCCESS = 0;
    /** NO_MESSAGE codes of a pull: nothing there, retry at once, offset moved. */
    private static final List<Integer> PULL_WITHOUT_MESSAGES = List.of(19, 20, 21);
    /** Answer of a query that finds nothing (QUERY_NOT_FOUND). */
    private static final int QUERY_NOT_FOUND = 22;

    /** PullSysFlag: the subscription is in the request, no consumer need be registered. */
    private static final int PULL_WITH_SUBSCRIPTION = 4;
    private static final String GROUP = "CG_mqcore_reference";
    private static final int BATCH_MESSAGES = 1024;
    private static final long TIMEOUT_MS = 20_000;
    /** A broker that is killed answers nothing; whoever sends finds out after this. */
    private static final long SEND_TIMEOUT_MS = 5_000;

    private final NettyRemotingClient client;
    private final PrintStream out;

    private Ask(NettyRemotingClient client, PrintStream out) {
        this.client = client;
        this.out = out;
    }

    /** A broker's refusal: its response code and remark. */
    private static final class Refusal extends Exception {
        Refusal(RemotingCommand reply) {
            super(reply.getCode() + " " + String.valueOf(reply.getRemark()).split("\n")[0]);
        }
    }

    public static void main(String[] args) throws Exception {
        PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        System.setOut(System.err);
        System.setProperty(RemotingCommand.REMOTING_VERSION_KEY,
            Integer.toString(MQVersion.CURRENT_VERSION));
        NettyRemotingClient client = new NettyRemotingClient(new NettyClientConfig());
        client.start();
        Ask ask = new Ask(client, out);
        BufferedReader in =
            new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            Map<String, Object> end = new HashMap<>();
            try {
                ask.answer(line.split("\t", -1));
                end.put("done", true);
            } catch (Exception e) {
                end.put("refused", e instanceof Refusal ? e.getMessage() : e.toString());
            }
            out.println(Json.line(end));
            out.flush();
        }
        System.exit(0);
    }

    private void answer(String[] question) throws Exception {
        String[] rest = Arrays.copyOfRange(question, 2, question.length);
        String address = question[0];
        switch (question[1]) {
            case "offsets" -> offsets(address, rest[0], rest[1]);
            case "pull" -> pull(address, rest[0], rest[1], Long.parseLong(rest[2]));
            case "query" -> query(address, rest[0], rest[1], rest[2], rest[3], false);
            case "unique" -> query(address, rest[0], rest[1], "0", "" + Long.MAX_VALUE, true);
            case "search" -> search(address, rest[0], rest[1], rest[2]);
            case "status" -> status(address);
            case "send" -> send(address, rest[0], rest[1], rest[2], rest[3]);
            default -> throw new IllegalArgumentException("no such question: " + question[1]);
        }
    }

    private void item(Object item) {
        out.println(Json.line(item));
    }

    private void offsets(String address, String topic, String queue) throws Exception {
        Map<String, String> fields = Map.of("topic", topic, "queueId", queue);
        item(Map.of(
            "min_offset", Long.parseLong(call(address, MIN_OFFSET, fields).get("offset")),
            "max_offset", Long.parseLong(call(address, MAX_OFFSET, fields).get("offset"))));
    }

    private void search(String address, String topic, String queue, String time) throws Exception {
        Map<String, String> fields = Map.of("topic", topic, "queueId", queue, "timestamp", time);
        Map<String, String> reply = call(address, SEARCH_OFFSET_BY_TIMESTAMP, fields);
        item(Map.of("offset", Long.parseLong(reply.get("offset"))));
    }

    private void status(String address) throws Exception {
        RemotingCommand reply = send(address, BROKER_RUNTIME_INFO, Map.of(), null);
        if (reply.getCode() != SUCCESS) {
            throw new Refusal(reply);
        }
        // A KVTable as JSON already: passed on as it is.
        out.println(new String(reply.getBody(), StandardCharsets.UTF_8).replace('\n', ' '));
    }

    private void send(String address, String topic, String queue, String properties, String body)
        throws Exception {
        Base64.Decoder base64 = Base64.getDecoder();
        Map<String, String> fields = new HashMap<>(Map.of("producerGroup", GROUP, "topic", topic,
            "defaultTopic", "TBW102", "defaultTopicQueueNums", "4", "queueId", queue,
            "sysFlag", "0", "bornTimestamp", "" + System.currentTimeMillis(), "flag", "0",
            "reconsumeTimes", "0", "unitMode", "false"));
        fields.put("batch", "false");
        fields.put("properties", new String(base64.decode(properties), StandardCharsets.UTF_8));
        Map<String, String> reply = call(address, SEND_MESSAGE, fields, base64.decode(body));
        item(Map.of("queue_offset", Long.parseLong(reply.get("queueOffset")),
            "msg_id", reply.get("msgId")));
    }

    private void pull(String address, String topic, String queue, long from) throws Exception {
        long next = from;
        while (true) {
            Map<String, String> fields = new HashMap<>(Map.of("consumerGroup", GROUP,
                "topic", topic, "queueId", queue, "queueOffset", Long.toString(next),
                "maxMsgNums", "" + BATCH_MESSAGES, "sysFlag", "" + PULL_WITH_SUBSCRIPTION,
                "commitOffset", "0", "suspendTimeoutMillis", "0", "subVersion", "0",
                "subscription", "*"));
            fields.put("expressionType", "TAG");
            RemotingCommand reply = send(address, PULL_MESSAGE, fields, null);
            boolean isEmpty = PULL_WITHOUT_MESSAGES.contains(reply.getCode());
            if (!isEmpty && reply.getCode() != SUCCESS) {
                throw new Refusal(reply);
            }
            if (!isEmpty) {
                for (Map<String, Object> message : Records.read(reply.getBody())) {
                    item(message);
                }
            }
            long after = Long.parseLong(reply.getExtFields().get("nextBeginOffset"));
            long end = Long.parseLong(reply.getExtFields().get("maxOffset"));
            if (after <= next || after >= end) {
                return;
            }
            next = after;
        }
    }

    private void query(String address, String topic, String key, String begin, String end,
        boolean isUnique) throws Exception {
        Map<String, String> fields = Map.of("topic", topic, "key", key, "maxNum", "64",
            "beginTimestamp", begin, "endTimestamp", end, "_UNIQUE_KEY_QUERY", "" + isUnique);
        RemotingCommand reply = send(address, QUERY_MESSAGE, fields, null);
        if (reply.getCode() == QUERY_NOT_FOUND) {
            return;
        }
        if (reply.getCode() != SUCCESS) {
            throw new Refusal(reply);
        }
        for (Map<String, Object> message : Records.read(reply.getBody())) {
            // The index knows hashes only; the official client drops what merely hashes alike.
            List<Object> keys = new ArrayList<>();
            if (isUnique) {
                keys.add(message.get("uniq_key"));
            } else if (message.get("keys") != null) {
                keys.addAll(Arrays.asList(message.get("keys").toString().split(" ")));
            }
            if (topic.equals(message.get("topic")) && keys.contains(key)) {
                item(message);
            }
        }
    }

    private Map<String, String> call(String address, int code, Map<String, String> fields)
        throws Exception {
        return call(address, code, fields, null);
    }

    private Map<String, String> call(String address, int code, Map<String, String> fields,
        byte[] body) throws Exception {
        RemotingCommand reply = send(address, code, fields, body);
        if (reply.getCode() != SUCCESS) {
            throw new Refusal(reply);
        }
        return reply.getExtFields();
    }

    private RemotingCommand send(String address, int code, Map<String, String> fields,
        byte[] body) throws Exception {
        RemotingCommand request = RemotingCommand.createRequestCommand(code, null);
        request.setExtFields(new HashMap<>(fields));
        request.setBody(body);
        return client.invokeSync(address, request, body == null ? TIMEOUT_MS : SEND_TIMEOUT_MS);
    }
}
