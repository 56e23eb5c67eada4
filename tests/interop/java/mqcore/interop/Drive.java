package mqcore.interop;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.nio.charset.StandardCharsets;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.rocketmq.common.MQVersion;
import org.apache.rocketmq.remoting.protocol.RemotingCommand;

/**
 * Drives unmodified official clients, many cases in one JVM, for as long as its standard input is
 * open. A line is a call (see Call); the answer is one line of JSON per item and then one with
 * `done` or `refused`. Clients have names and live until they are closed.
 *
 * producer NAME group= namesrv= [compress_over=] [poll_ms=]    starts one
 * send NAME topic= body= [how=sync|async|oneway|selector|batch] [count=] [size=] [fill=same|random]
 *      [tags=] [keys=] [delay=]                         one item per message
 *      [delay_s=|delay_ms=|deliver_ms=] [property=NAME:TEXT]     5.x: a time of its own
 * recall NAME topic= handle=                            5.3: one item, its id
 * flood NAME topic= body= [threads=] [pause_ms=]        sends in the background until ...
 * flooded NAME                                          ... here: one item per SEND_OK
 * acknowledged NAME count=                              waits for so many of the flood
 * view NAME topic= id=        query NAME topic= key=    messages by id (offset id or unique) and key
 * bounds NAME topic=          search NAME topic= time=  one item per queue
 * push NAME group= namesrv= topic= [expr=|sql=] [order=1] [broadcast=1] [fail=] [max_reconsume=]
 *      [poll_ms=]             how often routes are asked for
 *      [traced=1] [reply=]    replies to requests with this text, a colon and the request's
 *      [slow_ms=]             how long the first delivery of a message takes
 *      [server_rebalance=1] [invisible_ms=] [pop_batch=]    5.x: queues from the broker, pull or pop
 * lite NAME group= namesrv= topic= [expr=|sql=] [assign=1] [before=] [seek=]
 * pull NAME group= namesrv= topic= [expr=]              every message of the topic, pulled
 * select NAME group= namesrv= topic= sqls=             what SQL92 texts (between units separators)
 *      give of the topic by pulls: one item per text
 * got NAME count=             waits for so many different messages; one item per delivery
 * commit NAME                 lets a push consumer commit its offsets now
 * allocated NAME topic= count=                          waits until it has so many queues
 * transactions NAME group= namesrv=                    starts a producer of transactions
 * half NAME topic= body= state=commit|rollback|unknown [tags=] [immune=]    sent, then ended so
 * decide NAME body= state=    what it answers from now on     asked NAME    what it was asked
 * mqadmin - COMMAND ARGUMENT...  one item: what it printed (`until=`: cut when this was printed)
 * close NAME
 */
public final class Drive {
    /** Routes are asked for every two seconds rather than every thirty. */
    static final int POLL_MS = 2_000;

    private final Producers producers = new Producers();
    private final Consumers consumers = new Consumers();
    private final Transactions transactions = new Transactions();

    private Drive() { }

    public static void main(String[] args) throws Exception {
        PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        System.setOut(System.err);
        System.setProperty(RemotingCommand.REMOTING_VERSION_KEY,
            Integer.toString(MQVersion.CURRENT_VERSION));
        // Clients look for queues of new topics every second rather than every twenty.
        System.setProperty("rocketmq.client.rebalance.waitInterval", "1000");
        Hurry.start();
        Drive drive = new Drive();
        BufferedReader in =
            new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            Map<String, Object> end = new LinkedHashMap<>();
            try {
                Call call = new Call(line);
                for (Object item : Hurry.during(() -> drive.answer(call))) {
                    out.println(Json.line(item));
                }
                end.put("done", true);
            } catch (Exception e) {
                StringWriter trace = new StringWriter();
                e.printStackTrace(new PrintWriter(trace));
                end.put("refused", trace.toString());
            }
            out.println(Json.line(end));
            out.flush();
        }
        System.exit(0);
    }

    private List<?> answer(Call call) throws Exception {
        return switch (call.verb) {
            case "producer" -> producers.start(call);
            case "send" -> producers.send(call);
            case "recall" -> producers.recall(call);
            case "flood" -> producers.flood(call);
            case "failures" -> producers.failures(call);
            case "flooded" -> producers.flooded(call);
            case "acknowledged" -> producers.acknowledged(call);
            case "view" -> producers.view(call);
            case "query" -> producers.query(call);
            case "bounds" -> producers.bounds(call);
            case "search" -> producers.search(call);
            case "push" -> consumers.push(call);
            case "lite" -> consumers.lite(call);
            case "pull" -> consumers.pull(call);
            case "select" -> Selections.select(call);
            case "got" -> consumers.got(call);
            case "commit" -> consumers.commit(call);
            case "allocated" -> consumers.allocated(call);
            case "transactions" -> transactions.start(call);
            case "half" -> transactions.half(call);
            case "decide" -> transactions.decide(call);
            case "asked" -> transactions.asked(call);
            case "mqadmin" -> Tools.run(call);
            case "close" -> {
                producers.close(call.name);
                consumers.close(call.name);
                transactions.close(call.name);
                yield List.of();
            }
            default -> throw new IllegalArgumentException("no such call: " + call.verb);
        };
    }

    /** Waits for something, looking every few milliseconds, until the call's deadline. */
    static void await(Call call, java.util.function.BooleanSupplier is) throws Exception {
        long deadline = call.deadline();
        while (!is.getAsBoolean() && System.currentTimeMillis() < deadline) {
            Thread.sleep(10);
        }
    }
}
