package mqcore.interop;

import java.io.ByteArrayOutputStream;
import java.io.PrintStream;
import java.lang.reflect.Field;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.apache.rocketmq.tools.command.MQAdminStartup;

/** Runs commands of Apache's mqadmin in this JVM, one at a time, and keeps what they print. */
final class Tools {
    private Tools() { }

    /** The call's fields are the command line; `until=TEXT` before it ends one that never ends. */
    static List<?> run(Call call) throws Exception {
        List<String> line = new ArrayList<>(call.rest);
        line.removeIf(field -> field.startsWith("until=") || field.startsWith("timeout="));
        String until = call.text("until", null);
        ByteArrayOutputStream printed = new ByteArrayOutputStream();
        PrintStream keep = new PrintStream(printed, true, StandardCharsets.UTF_8);
        PrintStream before = System.out;
        PrintStream errors = System.err;
        forgetCommands();
        Thread command = new Thread(() -> main(line), "mqadmin");
        command.setDaemon(true);
        System.setOut(keep);
        System.setErr(keep);
        try {
            command.start();
            Drive.await(call, () -> !command.isAlive()
                || until != null && printed.toString(StandardCharsets.UTF_8).contains(until));
            if (command.isAlive()) {
                command.interrupt();
                command.join(call.deadline() - System.currentTimeMillis());
            }
        } finally {
            System.setOut(before);
            System.setErr(errors);
        }
        return List.of(Map.of("printed", printed.toString(StandardCharsets.UTF_8),
            "ended", !command.isAlive()));
    }

    private static void main(List<String> line) {
        try {
            Hurry.during(() -> {
                MQAdminStartup.main0(line.toArray(new String[0]), null);
                return null;
            });
        } catch (Exception e) {
            e.printStackTrace();
        }
    }

    /** Commands keep producers from run to run; a JVM of its own for each would not. */
    private static void forgetCommands() throws ReflectiveOperationException {
        for (Field field : MQAdminStartup.class.getDeclaredFields()) {
            if (List.class.isAssignableFrom(field.getType())) {
                field.setAccessible(true);
                ((List<?>) field.get(null)).clear();
            }
        }
    }
}
