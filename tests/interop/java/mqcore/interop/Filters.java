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
import org.apache.rocketmq.filter.expression.EvaluationContext;
import org.apache.rocketmq.filter.expression.Expression;
import org.apache.rocketmq.filter.FilterFactory;
import org.apache.rocketmq.filter.util.BloomFilter;

/**
 * Evaluates expressions over maps of properties with the official filter. Lines in, all fields
 * in Base64 and between tabs: `M NAME VALUE...` adds a map, `E EXPRESSION` is answered by a line
 * with one letter per map: True, False, Null, Exception; or by `!` where it does not compile. `P
 * EXPRESSION` is answered by the error of one that does not compile. `B PERCENT COUNT TEXT` is
 * answered by the bits of a text in a Bloom filter: the size of the filter, then their positions.
 */
public final class Filters {
    private Filters() { }

    public static void main(String[] args) throws Exception {
        PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        System.setOut(System.err);
        List<Map<String, String>> maps = new ArrayList<>();
        BufferedReader in =
            new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] parts = line.split("\t", -1);
            if (parts[0].equals("E")) {
                out.println(answers(decoded(parts[1]), maps));
                continue;
            }
            if (parts[0].equals("P")) {
                out.println(fault(decoded(parts[1])));
                continue;
            }
            if (parts[0].equals("B")) {
                BloomFilter bloom = BloomFilter.createByFn(
                    Integer.parseInt(decoded(parts[1])), Integer.parseInt(decoded(parts[2])));
                String at = Arrays.toString(bloom.calcBitPositions(decoded(parts[3])));
                out.println(bloom.getM() + " " + at.replaceAll("[\\[\\],]", ""));
                continue;
            }
            Map<String, String> map = new HashMap<>();
            for (int at = 1; at + 1 < parts.length; at += 2) {
                map.put(decoded(parts[at]), decoded(parts[at + 1]));
            }
            maps.add(map);
        }
        out.flush();
        System.exit(0);
    }

    private static String decoded(String field) {
        return new String(Base64.getDecoder().decode(field), StandardCharsets.UTF_8);
    }

    /** On one line; nothing for an expression that compiles. */
    private static String fault(String text) {
        try {
            FilterFactory.INSTANCE.get("SQL92").compile(text);
            return "";
        } catch (Exception e) {
            return String.valueOf(e.getMessage()).replaceAll("\\s+", " ");
        }
    }

    private static String answers(String text, List<Map<String, String>> maps) {
        Expression expression;
        try {
            expression = FilterFactory.INSTANCE.get("SQL92").compile(text);
        } catch (Exception e) {
            return "!";
        }
        StringBuilder letters = new StringBuilder();
        for (Map<String, String> map : maps) {
            letters.append(letter(expression, map));
        }
        return letters.toString();
    }

    private static char letter(Expression expression, Map<String, String> map) {
        Object value;
        try {
            value = expression.evaluate(new EvaluationContext() {
                @Override
                public Object get(String name) {
                    return map.get(name);
                }

                @Override
                public Map<String, Object> keyValues() {
                    return new HashMap<>(map);
                }
            });
        } catch (Exception e) {
            return 'E';
        }
        if (value == null) {
            return 'N';
        }
        return Boolean.TRUE.equals(value) ? 'T' : 'F';
    }
}
