package mqcore.interop;

import java.lang.reflect.Method;
import java.util.TreeMap;

/** Prints every key that the named configuration classes can be set by: class, key, type, default. */
public final class Keys {
    private Keys() {
    }

    public static void main(String[] names) throws Exception {
        for (String name : names) {
            Class<?> kind = Class.forName(name);
            Object fresh = kind.getDeclaredConstructor().newInstance();
            TreeMap<String, String> rows = new TreeMap<>();
            for (Method setter : kind.getMethods()) {
                if (!setter.getName().startsWith("set") || setter.getParameterCount() != 1) {
                    continue;
                }
                String bare = setter.getName().substring(3);
                String key = bare.substring(0, 1).toLowerCase() + bare.substring(1);
                rows.put(key, setter.getParameterTypes()[0].getSimpleName() + "\t" + value(fresh, bare));
            }
            rows.forEach((key, row) ->
                System.out.println("KEY\t" + kind.getSimpleName() + "\t" + key + "\t" + row));
        }
    }

    private static Object value(Object fresh, String bare) throws Exception {
        for (String getter : new String[] {"get" + bare, "is" + bare}) {
            try {
                return fresh.getClass().getMethod(getter).invoke(fresh);
            } catch (NoSuchMethodException absent) {
                continue;
            }
        }
        return "?";
    }
}
