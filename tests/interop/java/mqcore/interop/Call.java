package mqcore.interop;

import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/** One line put to `Drive`: a verb, the name of a client, and fields as KEY=VALUE, between tabs. */
final class Call {
    /** The JVM that drives is given seconds, not minutes, where nothing else is given. */
    private static final long DEADLINE_MS = 60_000;

    final String verb;
    final String name;
    /** The fields after the name, as they came. */
    final List<String> rest;
    private final Map<String, String> fields = new HashMap<>();

    Call(String line) {
        String[] parts = line.split("\t", -1);
        verb = parts[0];
        name = parts.length > 1 ? parts[1] : "";
        rest = Arrays.asList(parts).subList(Math.min(2, parts.length), parts.length);
        for (String field : rest) {
            int at = field.indexOf('=');
            if (at > 0) {
                fields.put(field.substring(0, at), field.substring(at + 1));
            }
        }
    }

    String text(String key) {
        String value = fields.get(key);
        if (value == null) {
            throw new IllegalArgumentException(verb + ": " + key + " is missing");
        }
        return value;
    }

    String text(String key, String otherwise) {
        return fields.getOrDefault(key, otherwise);
    }

    int number(String key, int otherwise) {
        return Integer.parseInt(fields.getOrDefault(key, Integer.toString(otherwise)));
    }

    boolean flag(String key) {
        return "1".equals(fields.get(key));
    }

    /** The time until which this call may wait. */
    long deadline() {
        return System.currentTimeMillis() + number("timeout", (int) DEADLINE_MS);
    }
}
