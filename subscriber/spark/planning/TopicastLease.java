// For how long memory is current, as the agent has said last. System.nanoTime() stands still while
// the machine sleeps, and the wall clock may be set. So the lease ends once either clock says so:
// after a sleep by the wall clock, and if that was set back, by the other. A wall clock that is set
// forward ends the lease until the agent's next call, a second later. Any thread may call it.
final class TopicastLease {
    // When it was extended by either clock, in nanoseconds and milliseconds; for how long, in ms.
    private volatile long[] extended = new long[3];

    void extend(long ms) {
        extendAt(ms, System.nanoTime(), System.currentTimeMillis());
    }

    boolean holds() {
        return holdsAt(System.nanoTime(), System.currentTimeMillis());
    }

    void extendAt(long ms, long nanos, long wallMs) {
        extended = new long[] {nanos, wallMs, ms};
    }

    boolean holdsAt(long nanos, long wallMs) {
        long[] of = extended;
        return nanos - of[0] < of[2] * 1000000L && wallMs - of[1] < of[2];
    }
}
