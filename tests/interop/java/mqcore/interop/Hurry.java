package mqcore.interop;

import java.util.Map;

/**
 * Lets clients of 5.x shut down at once. Their remoting waits for the thread that hands out events
 * of connections, and that one looks up every three seconds only; interrupted, it looks up now.
 */
final class Hurry {
    private static final long LOOK_MS = 50;
    private static final String EVENTS = "NettyEventExecutor";

    private Hurry() { }

    static void start() {
        Thread thread = new Thread(Hurry::watch, "hurry");
        thread.setDaemon(true);
        thread.start();
    }

    private static void watch() {
        while (true) {
            try {
                Thread.sleep(LOOK_MS);
            } catch (InterruptedException e) {
                return;
            }
            Map<Thread, StackTraceElement[]> stacks = Thread.getAllStackTraces();
            if (stacks.values().stream().anyMatch(Hurry::isShuttingDown)) {
                stacks.keySet().stream().filter(each -> each.getName().startsWith(EVENTS))
                    .forEach(Thread::interrupt);
            }
        }
    }

    private static boolean isShuttingDown(StackTraceElement[] stack) {
        boolean isJoining = false;
        for (StackTraceElement frame : stack) {
            isJoining |= frame.getMethodName().equals("join");
            if (isJoining && frame.getMethodName().equals("shutdown")
                && frame.getClassName().endsWith("NettyRemotingClient")) {
                return true;
            }
        }
        return false;
    }
}
