import java.util.ArrayList;
import java.util.HashMap;
import java.util.Iterator;

// Queues the questions of reads for the agent, a thread of which takes and answers them with yes or
// no. Each read has a question of its own, so an answer is never older than the read. The object's
// lock guards all fields.
final class TopicastQuestions {
    private static final int WAITING_MAX = 10000;  // reads: each is a thread of the application
    private static final char END = (char) 10;

    private final HashMap waiting = new HashMap();  // number -> Question
    private final ArrayList untaken = new ArrayList();  // numbers of questions, in order
    private long last;  // number of a question
    private long opened;  // calls of open(), so that a take() of an earlier agent takes nothing
    private boolean open;

    // Accept questions from now on, or refuse them. No question from before gets an answer.
    synchronized void open(boolean open) {
        this.open = open;
        opened++;
        waiting.clear();
        untaken.clear();
        notifyAll();
    }

    // Ask, and wait at most ms; returns whether the answer is yes. No answer counts as no.
    synchronized boolean isSo(String name, long ms) {
        if (!open || waiting.size() >= WAITING_MAX) return false;
        long until = System.nanoTime() + ms * 1000000L;
        Long number = Long.valueOf(++last);
        Question mine = new Question(name);
        waiting.put(number, mine);
        untaken.add(number);
        notifyAll();
        try {
            while (open && !mine.answered) {
                long left = (until - System.nanoTime()) / 1000000L;
                if (left <= 0) break;
                wait(left);
            }
        } catch (InterruptedException ended) {
            Thread.currentThread().interrupt();
        }
        waiting.remove(number);
        return mine.isSo;
    }

    // Wait at most ms for a question, and at most until open() is called. Returns a line for each
    // that was not taken before: its number, and its name.
    synchronized String take(long ms) throws InterruptedException {
        long mine = opened;
        long until = System.nanoTime() + ms * 1000000L;
        while (open && untaken.isEmpty()) {
            long left = (until - System.nanoTime()) / 1000000L;
            if (left <= 0) break;
            wait(left);
            if (mine != opened) return "";
        }
        StringBuilder found = new StringBuilder();
        for (Iterator all = untaken.iterator(); all.hasNext();) {
            Object number = all.next();
            Question one = (Question) waiting.get(number);
            if (one != null) found.append(number).append(' ').append(one.name).append(END);
        }
        untaken.clear();
        return found.toString();
    }

    // Answer questions: a line for each, 1 or 0, and its number.
    synchronized void answer(String answers) {
        String[] all = answers.split(String.valueOf(END));
        for (int at = 0; at < all.length; at++) {
            Question one = (Question) waiting.get(Long.valueOf(all[at].substring(2)));
            if (one == null) continue;
            one.isSo = all[at].charAt(0) == '1';
            one.answered = true;
        }
        notifyAll();
    }

    private static final class Question {
        final String name;
        boolean answered;
        boolean isSo;

        Question(String name) {
            this.name = name;
        }
    }
}
