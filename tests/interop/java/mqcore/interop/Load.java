package mqcore.interop;

import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.atomic.LongAdder;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.message.Message;

/**
 * Sends as the official benchmark does: a number of threads share one producer, each sends one
 * message after the other and waits for its answer. Prints one line with rate and latencies.
 */
public final class Load {
    /** The newest so many count towards the latencies. */
    private static final int SAMPLES = 1 << 20;

    private Load() { }

    /** Arguments: name server, topic, threads, seconds before measuring, seconds, bytes of a body. */
    public static void main(String[] args) throws Exception {
        int threads = Integer.parseInt(args[2]);
        long warmNanos = Long.parseLong(args[3]) * 1_000_000_000L;
        long nanos = Long.parseLong(args[4]) * 1_000_000_000L;
        byte[] body = new byte[Integer.parseInt(args[5])];
        Arrays.fill(body, (byte) 'x');
        DefaultMQProducer producer = new DefaultMQProducer("load");
        producer.setNamesrvAddr(args[0]);
        // As the benchmark does; messages of 1 KB stay as they are.
        producer.setCompressMsgBodyOverHowmuch(Integer.MAX_VALUE);
        producer.start();
        LongAdder sent = new LongAdder();
        LongAdder failed = new LongAdder();
        AtomicLong samples = new AtomicLong();
        long[] latencies = new long[SAMPLES];
        long from = System.nanoTime() + warmNanos;
        long until = from + nanos;
        Thread[] workers = new Thread[threads];
        for (int i = 0; i < threads; i++) {
            workers[i] = new Thread(() -> {
                while (true) {
                    long began = System.nanoTime();
                    if (began >= until) {
                        return;
                    }
                    boolean isSent;
                    try {
                        producer.send(new Message(args[1], body));
                        isSent = true;
                    } catch (Exception e) {
                        isSent = false;
                    }
                    long ended = System.nanoTime();
                    if (began >= from && ended < until) {
                        (isSent ? sent : failed).increment();
                        long index = samples.getAndIncrement();
                        latencies[(int) (index % latencies.length)] = ended - began;
                    }
                }
            });
            workers[i].start();
        }
        for (Thread worker : workers) {
            worker.join();
        }
        producer.shutdown();
        int count = (int) Math.min(samples.get(), latencies.length);
        long[] sorted = Arrays.copyOf(latencies, count);
        Arrays.sort(sorted);
        Map<String, Object> line = new LinkedHashMap<>();
        line.put("messages_per_second", sent.sum() * 1e9 / nanos);
        line.put("failed", failed.sum());
        for (double share : new double[] {0.5, 0.99}) {
            double us = count == 0 ? 0 : sorted[(int) ((count - 1) * share)] / 1e3;
            line.put("p" + (int) (share * 100) + "_us", us);
        }
        System.out.println(Json.line(line));
        System.exit(0);
    }
}
