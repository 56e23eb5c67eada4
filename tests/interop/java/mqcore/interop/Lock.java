package mqcore.interop;

import java.io.RandomAccessFile;
import java.nio.channels.FileLock;

/**
 * Takes a store's lock as the official DefaultMessageStore.start does, prints `locked` or
 * `refused`, and holds it until its standard input ends. Argument: the store's root directory.
 */
public final class Lock {
    private Lock() { }

    public static void main(String[] args) throws Exception {
        try (RandomAccessFile file = new RandomAccessFile(args[0] + "/lock", "rw")) {
            FileLock lock = file.getChannel().tryLock(0, 1, false);
            System.out.println(lock == null ? "refused" : "locked");
            System.out.flush();
            while (lock != null && System.in.read() >= 0) {
                // Nothing is written to the input: its end is the signal.
            }
        }
    }
}
