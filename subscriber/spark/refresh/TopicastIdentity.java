import java.lang.ref.WeakReference;

// A key of a map that stands for one object, and not for one that is equal to it. It keeps nothing
// alive: once the object is gone, the key equals nothing but itself.
final class TopicastIdentity extends WeakReference {
    private final int hash;

    TopicastIdentity(Object of) {
        super(of);
        hash = System.identityHashCode(of);
    }

    public int hashCode() {
        return hash;
    }

    public boolean equals(Object other) {
        if (this == other) return true;
        Object mine = get();
        return mine != null && other instanceof TopicastIdentity
            && ((TopicastIdentity) other).get() == mine;
    }
}
