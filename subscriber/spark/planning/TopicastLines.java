// Builds the text of the router's status: a line "name=value" for each fact and counter.
final class TopicastLines {
    private final StringBuilder text = new StringBuilder();

    void add(String name, String value) {
        text.append(name).append('=').append(value.replace(TopicastNames.END, ' '));
        text.append(TopicastNames.END);
    }

    void add(String name, long value) {
        add(name, String.valueOf(value));
    }

    public String toString() {
        return text.toString();
    }
}
