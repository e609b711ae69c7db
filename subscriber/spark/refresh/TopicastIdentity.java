import java.lang.ref.WeakReference;

// A key of a map that stands for one object, not for objects that are equal to it. It holds the
// object weakly; once the object has been collected, the key equals only itself.
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
