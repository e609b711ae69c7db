import java.util.ArrayList;
import java.util.HashMap;
import java.util.Iterator;

// Questions of readers in this JVM, which a thread of the agent takes and answers with yes or no.
// Each is of one read, so that an answer is never older than the question. The object's lock guards
// all.
final class TopicastQuestions {
    private static final int WAITING_MAX = 10000;  // readers: each is a thread of the application
    private static final char END = (char) 10;

    private final HashMap waiting = new HashMap();  // number -> Question
    private final ArrayList untaken = new ArrayList();  // numbers
    private long last;  // number
    private long opened;  // how often: what an agent of before left waiting takes nothing
    private boolean open;

    // Take questions from now on, or none: readers that wait are not answered.
    synchronized void open(boolean open) {
        this.open = open;
        opened++;
        waiting.clear();
        untaken.clear();
        notifyAll();
    }

    // Whether the answer is yes, which has to come within so many milliseconds.
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

    // Wait for a question, but not longer than so many milliseconds, or until open() is called. A
    // line for each that was not taken before: its number, and its name.
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

    // Answer questions, by a line for each: 1 or 0, and its number.
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
