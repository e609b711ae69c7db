import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.Map;

/** Hands questions of the driver's Python to the agent, and the agent's answers back; both are
    texts of JSON. Threads of PySpark's gateway ask, and wait; one thread of the agent's gateway
    takes, and others answer. The object's lock guards all fields. */
public final class TopicastBoard implements Runnable {
    private static final int ASKED_MAX = 100;  // threads that wait at the same time
    private static final int CHARACTERS_MAX = 65536;  // of a question; the usual ones have 100

    private final LinkedHashMap asked = new LinkedHashMap();  // number -> question, in order
    private final LinkedHashMap taken = new LinkedHashMap();  // likewise; the current agent has it
    private final HashMap answers = new HashMap();  // number -> answer
    private long last;  // number of a question
    private long agent;  // calls of resume(), so that request() of an earlier agent takes nothing
    private boolean read;  // the current agent takes questions
    private boolean ended;  // no agent is to take questions any more

    /** Returns the answer of the current agent or of the next one; null if none comes within ms. */
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

    /** Returns the number of a question, a blank and the question; "" after ms, or if another agent
        has begun meanwhile; "end" if the agent is to end. Caller: the agent. */
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

    /** Whether the current agent has begun to take questions; it may hang since. */
    public synchronized boolean isRead() {
        return read;
    }

    public synchronized void answer(long number, String text) {
        if (taken.remove(Long.valueOf(number)) != null) answers.put(Long.valueOf(number), text);
        notifyAll();
    }

    /** Lets the next agent take what an agent that has ended took and did not answer. */
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

    /** Ends all waits: questions get no answer, and the agent is told to end. */
    public synchronized void run() {
        ended = true;
        notifyAll();
    }
}
