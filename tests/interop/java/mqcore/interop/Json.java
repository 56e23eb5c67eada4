package mqcore.interop;

import java.util.Collection;
import java.util.Map;

/** Writes maps, lists, numbers, booleans and text as JSON on one line. */
final class Json {
    private Json() { }

    static String line(Object value) {
        StringBuilder out = new StringBuilder();
        append(out, value);
        return out.toString();
    }

    private static void append(StringBuilder out, Object value) {
        if (value == null || value instanceof Number || value instanceof Boolean) {
            out.append(value);
        } else if (value instanceof Map<?, ?> map) {
            char before = '{';
            for (Map.Entry<?, ?> entry : map.entrySet()) {
                out.append(before);
                text(out, String.valueOf(entry.getKey()));
                out.append(':');
                append(out, entry.getValue());
                before = ',';
            }
            out.append(map.isEmpty() ? "{}" : "}");
        } else if (value instanceof Collection<?> list) {
            char before = '[';
            for (Object item : list) {
                out.append(before);
                append(out, item);
                before = ',';
            }
            out.append(list.isEmpty() ? "[]" : "]");
        } else {
            text(out, String.valueOf(value));
        }
    }

    private static void text(StringBuilder out, String text) {
        out.append('"');
        for (int i = 0; i < text.length(); i++) {
            char c = text.charAt(i);
            if (c == '"' || c == '\\') {
                out.append('\\').append(c);
            } else if (c < 0x20 || c == 0x7f || Character.isSurrogate(c)) {
                // Escaped one by one, a lone half of a pair survives the way through UTF-8.
                out.append(String.format("\\u%04x", (int) c));
            } else {
                out.append(c);
            }
        }
        out.append('"');
    }
}
