import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.Map;

/** Hands questions of the driver's Python to the agent, and the agent's answers back; both are
    texts of JSON. Threads of PySpark's gateway ask, and wait; one thread of the agent's gateway
    takes, and others answer. The object's lock guards all that is in it. */
public final class TopicastBoard implements Runnable {
    private static final int ASKED_MAX = 100;  // threads that wait at the same time
    private static final int CHARACTERS_MAX = 65536;  // of a question; ours have 100

    private final LinkedHashMap asked = new LinkedHashMap();  // by number, in order
    private final LinkedHashMap taken = new LinkedHashMap();  // likewise, by the agent of now
    private final HashMap answers = new HashMap();  // by number
    private long last;
    private long agent;  // how many have begun: what one of before left waiting takes nothing
    private boolean read;  // by the agent of now
    private boolean ended;  // no agent is to take anything any more

    /** Returns the answer of the agent of now, or of the next one; null: none within ms. */
    public synchronized String ask(String question, long ms) throws InterruptedException {
        if (question.length() > CHARACTERS_MAX || asked.size() + taken.size() >= ASKED_MAX) {
            return null;
        }
        Long number = Long.valueOf(++last);
        asked.put(number, question);
        notifyAll();
        try {
            long until = System.nanoTime() + ms * 1000000L;
            while (!ended && !answers.containsKey(number)) {
                long left = (until - System.nanoTime()) / 1000000L;
                if (left <= 0L) break;
                wait(left);
            }
            return (String) answers.remove(number);
        } finally {
            asked.remove(number);
            taken.remove(number);
        }
    }

    /** Returns a number and its question; "" after ms, or if another agent has begun meanwhile;
        "end" once the agent is to end. */
    public synchronized String request(long ms) throws InterruptedException {
        long mine = agent;
        read = true;
        long until = System.nanoTime() + ms * 1000000L;
        while (asked.isEmpty() && !ended) {
            long left = (until - System.nanoTime()) / 1000000L;
            if (left <= 0L) return "";
            wait(left);
            if (mine != agent) return "";
        }
        if (asked.isEmpty()) return "end";
        Map.Entry first = (Map.Entry) asked.entrySet().iterator().next();
        asked.remove(first.getKey());
        taken.put(first.getKey(), first.getValue());
        return first.getKey() + " " + first.getValue();
    }

    /** Whether there is an agent that takes questions, unless it hangs. */
    public synchronized boolean isRead() {
        return read;
    }

    public synchronized void answer(long number, String text) {
        if (taken.remove(Long.valueOf(number)) != null) answers.put(Long.valueOf(number), text);
        notifyAll();
    }

    /** Lets what an agent had taken, which has ended, be taken once more. */
    public synchronized void resume() {
        agent++;
        read = false;
        LinkedHashMap later = new LinkedHashMap(asked);
        asked.clear();
        asked.putAll(taken);
        asked.putAll(later);
        taken.clear();
        notifyAll();
    }

    /** Leaves all questions without an answer, and lets the agent end. */
    public synchronized void run() {
        ended = true;
        notifyAll();
    }
}
