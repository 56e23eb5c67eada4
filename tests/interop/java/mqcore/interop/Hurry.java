package mqcore.interop;

import java.util.Arrays;
import java.util.Set;
import java.util.concurrent.Callable;
import java.util.concurrent.ConcurrentHashMap;

/**
 * Lets clients of 5.x shut down at once. Their remoting waits for the thread that hands out events
 * of connections, and that one looks up every three seconds only; interrupted, it looks up now.
 */
final class Hurry {
    private static final long LOOK_MS = 50;
    private static final String EVENTS = "NettyEventExecutor";

    /** Threads that may shut clients down now. */
    private static final Set<Thread> WORKING = ConcurrentHashMap.newKeySet();

    private Hurry() { }

    /** Does what may shut clients down. */
    static <T> T during(Callable<T> work) throws Exception {
        WORKING.add(Thread.currentThread());
        try {
            return work.call();
        } finally {
            WORKING.remove(Thread.currentThread());
        }
    }

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
            if (WORKING.stream().map(Thread::getStackTrace).anyMatch(Hurry::isShuttingDown)) {
                Thread[] all = new Thread[2 * Thread.activeCount()];
                int count = Thread.enumerate(all);
                Arrays.stream(all, 0, count).filter(each -> each.getName().startsWith(EVENTS))
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
