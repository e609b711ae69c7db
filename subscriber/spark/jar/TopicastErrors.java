import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InputStream;

/** Passes an agent's standard error on to the driver's, from when the agent works. Until then it
    holds the text back: if the agent ends, the last line says why, and the driver's log has that.
    This thread reads, so that the agent never blocks when it writes; the thread that runs the agent
    calls pass() and last(). */
public final class TopicastErrors extends Thread {
    private static final int HELD_MAX = 65536;  // bytes; if there are more, the last half stays

    private final InputStream errors;
    private final TopicastBoard board;
    private final ByteArrayOutputStream held = new ByteArrayOutputStream();

    public TopicastErrors(InputStream errors, TopicastBoard board) {
        super("topicast-errors");
        this.errors = errors;
        this.board = board;
        setDaemon(true);
        start();
    }

    public void run() {
        byte[] some = new byte[4096];
        try {
            for (int size = errors.read(some); size >= 0; size = errors.read(some)) {
                hold(some, size);
                if (board.isRead()) pass();
            }
        } catch (IOException closed) {  // the agent was ended
        }
    }

    synchronized void hold(byte[] some, int size) {
        held.write(some, 0, size);
        if (held.size() <= HELD_MAX) return;
        byte[] all = held.toByteArray();
        held.reset();
        held.write(all, all.length - HELD_MAX / 2, HELD_MAX / 2);
    }

    synchronized void pass() {
        byte[] found = held.toByteArray();
        held.reset();
        System.err.write(found, 0, found.length);
        System.err.flush();
    }

    /** Returns the last line that is held back; "" if nothing is. */
    synchronized String last() throws IOException {
        String[] lines = held.toString("UTF-8").trim().split("\n");
        held.reset();
        return lines[lines.length - 1].trim();
    }
}
