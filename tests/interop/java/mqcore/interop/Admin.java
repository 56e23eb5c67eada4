package mqcore.interop;

import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.Map;
import org.apache.rocketmq.tools.command.MQAdminStartup;

/**
 * Runs commands of the official mqadmin, for as long as its standard input is open: one Java
 * process for many of them. A command is one line of words between tabs; the answer is one line
 * with what it printed, `said`, and what it complained of, `complained`.
 */
public final class Admin {
    private Admin() { }

    public static void main(String[] args) throws Exception {
        PrintStream answers = System.out;
        PrintStream errors = System.err;
        BufferedReader questions =
            new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line; (line = questions.readLine()) != null; ) {
            ByteArrayOutputStream said = new ByteArrayOutputStream();
            ByteArrayOutputStream complained = new ByteArrayOutputStream();
            System.setOut(new PrintStream(said, true, StandardCharsets.UTF_8));
            System.setErr(new PrintStream(complained, true, StandardCharsets.UTF_8));
            try {
                MQAdminStartup.main0(line.split("\t"), null);
            } catch (Exception error) {
                error.printStackTrace(System.err);
            } finally {
                System.setOut(answers);
                System.setErr(errors);
            }
            byte[] text = Json.line(Map.of(
                "said", said.toString(StandardCharsets.UTF_8),
                "complained", complained.toString(StandardCharsets.UTF_8)))
                .getBytes(StandardCharsets.UTF_8);
            answers.write(text);
            answers.write('\n');
            answers.flush();
        }
    }
}
