import java.io.File;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.lang.ProcessBuilder.Redirect;
import java.lang.ref.WeakReference;
import java.lang.reflect.Field;
import java.net.InetAddress;
import java.security.SecureRandom;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.Scanner;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import javax.net.SocketFactory;
import org.apache.spark.SparkConf;
import org.apache.spark.SparkContext;
import org.apache.spark.sql.SparkSessionExtensionsProvider;
import org.slf4j.LoggerFactory;
import py4j.CallbackClient;
import py4j.GatewayServer;
import scala.Option;
import scala.runtime.AbstractFunction1;
import scala.runtime.BoxedUnit;

/** Keeps an agent beside a driver: it starts the agent's process, and another one when that has
    ended.

    With each session Spark makes an object of this class by the service file, in the thread that
    makes the session; where the jar is not on the class path, the driver's Python makes the first
    one. The first object of a context serves it: it queues what is executed, and a thread of its
    own runs the agents, one after the other, which attach through a gateway of its own. A driver's
    Python asks them by the board. The lock of the class guards which object serves. */
public final class TopicastBootstrap extends AbstractFunction1
        implements SparkSessionExtensionsProvider, Runnable {
    private static final String RELEASE = "@RELEASE@";  // of Topicast, which an agent must have
    private static final String STATESTORES = "spark.topicast.statestores";
    private static final String AGENT = "spark.topicast.agent";
    private static final String OURS = "TOPICAST_";  // how variables of ours begin
    private static final String COMMAND = "topicast-agent";  // a file of the jar: what starts one
    private static final Pattern WORD = Pattern.compile("\"([^\"]*)\"|'([^']*)'|(\\S+)");
    private static final long PAUSE_S = 1L;  // before the second start; doubled each time
    private static final long PAUSE_S_MAX = 60L;
    private static final long STEADY_S = 60L;  // an agent that ran so long: the pause is the first
    private static final long LOOK_S = 1L;  // between two looks whether the context was stopped
    private static final long STOP_S = 5L;  // for an agent to end after its context
    private static final long SAID_MS = 1000L;  // for what an agent that has ended has said
    private static final int TOKEN_BYTES = 24;

    private static final HashMap variables = new HashMap();  // ours, which children do not inherit
    private static final ConcurrentHashMap kept = new ConcurrentHashMap();  // survives agents
    private static TopicastBootstrap serving;  // the last context; null: none yet

    private final TopicastListener listener = new TopicastListener();
    private final TopicastBoard board = new TopicastBoard();
    private final List sessions = new ArrayList();  // weakly, those that Python has
    private SparkContext context;
    private List command;
    private String path = "";  // where its Python finds us, if that is the driver's; "": elsewhere
    private String settings = "{}";  // of attach, as JSON
    private volatile String control = "";  // what the application has switched it to since then
    private volatile String problem = "";  // why there is no agent; "": there is one, or it starts
    private volatile boolean stopped;
    private volatile Process agent;
    private String said = "";  // the last problem that was logged

    /** Spark's call: begin with the context of now, unless it is served already. */
    public Object apply(Object extensions) {
        try {
            SparkContext found = active();
            if (found != null && !setting(found, STATESTORES, "TOPICAST_STATESTORES").isEmpty()) {
                hide();
                String arguments = variable("TOPICAST_RUN");  // of the command line
                serve(found, command(setting(found, AGENT, "TOPICAST_AGENT")), "",
                    arguments.isEmpty() ? "{}" : "{\"arguments\": " + arguments + "}");
                String folder = variable("TOPICAST_NOTES");
                if (!folder.isEmpty()) new File(folder, "found").mkdir();
            }
        } catch (Throwable failed) {
            warn("it is plain Spark: " + failed);
        }
        return BoxedUnit.UNIT;
    }

    /** Returns what serves a context: the first that was told to, until it was stopped. */
    public TopicastBootstrap attach(SparkContext found, List command, String path,
            String settings) {
        synchronized (TopicastBootstrap.class) {
            if (serving != null && serving.stopped && serving.context == found) serving = null;
            return serve(found, command, path, settings);
        }
    }

    /** Returns what serves a context; a Python that has detached it is not contradicted. */
    static TopicastBootstrap serve(SparkContext found, List command, String path,
            String settings) {
        synchronized (TopicastBootstrap.class) {
            if (serving != null && serving.context == found) return serving;
            serving = new TopicastBootstrap();
            serving.begin(found, command, path, settings);
            return serving;
        }
    }

    void begin(SparkContext found, List command, String path, String settings) {
        this.context = found;
        this.command = new ArrayList(command);
        this.path = path;
        this.settings = settings;
        listener.atEnd(board);
        listener.expect(true);
        found.addSparkListener(listener);
        Thread thread = new Thread(this, "topicast-bootstrap");
        thread.setDaemon(true);
        thread.setContextClassLoader(loader());
        thread.start();
    }

    public String release() {
        return RELEASE;
    }

    public SparkContext context() {
        return context;
    }

    public TopicastListener listener() {
        return listener;
    }

    public TopicastBoard board() {
        return board;
    }

    /** The objects that agents find again, by names of theirs. */
    public Map kept() {
        return kept;
    }

    /** Why there is no agent; "": there is one, or it starts. */
    public String problem() {
        return problem;
    }

    public boolean isStopped() {
        return stopped || context.isStopped();
    }

    /** Lets each agent that has not begun yet begin with another control. */
    public void control(String control) {
        this.control = control;
    }

    /** What the application has switched it to; "": what its settings say. */
    public String control() {
        return control;
    }

    /** Adds a session that Python has, if it is of this context. */
    public void add(Object session) throws Exception {
        Object of = session.getClass().getMethod("sparkContext", new Class[0])
            .invoke(session, new Object[0]);
        if (of != context) return;
        synchronized (sessions) {
            if (!sessions().contains(session)) sessions.add(new WeakReference(session));
        }
        listener.adopt(session);
    }

    /** Returns the sessions that Python has. */
    public List sessions() {
        List found = new ArrayList();
        synchronized (sessions) {
            for (int at = sessions.size() - 1; at >= 0; at--) {
                Object one = ((WeakReference) sessions.get(at)).get();
                if (one == null) sessions.remove(at);
                else found.add(0, one);
            }
        }
        return found;
    }

    /** Reports that Python has called what executes nothing. */
    public void report(String what, Object session, String name) {
        List of = new ArrayList();
        of.add(session);
        of.add(name);
        listener.add(what, of);
    }

    /** Waits at most ms until what was executed is reported: Python's call of it may return. */
    public boolean settle(long ms) throws InterruptedException {
        return agent != null && !isStopped() && listener.settle(context, ms);
    }

    /** Leaves plain Spark: the agent ends, and what is executed is queued no more. */
    public void stop() {
        stopped = true;
        context.removeSparkListener(listener);
        listener.stop();
        board.run();
    }

    /** Runs one agent after the other. What fails in between, as for want of memory, or of files
        that may be open, is tried again. */
    public void run() {
        try {
            for (long pause = PAUSE_S; !isStopped(); pause = Math.min(2L * pause, PAUSE_S_MAX)) {
                long began = System.nanoTime();
                try {
                    String why = runAgent();
                    if (why.isEmpty() || isStopped()) return;
                    say(why);
                } catch (OutOfMemoryError failed) {
                    problem = "no memory is left for its agent";
                } catch (Exception failed) {
                    say("its agent cannot be kept: " + failed);
                }
                if (System.nanoTime() - began > STEADY_S * 1000000000L) pause = PAUSE_S;
                Thread.sleep(pause * 1000L);
            }
        } catch (Throwable failed) {
            problem = failed.toString();
            warn("it is plain Spark: " + failed);
        } finally {
            board.run();
        }
    }

    /** Logs why there is no agent, once, and lets nobody wait for one. */
    void say(String why) {
        problem = why;
        listener.expect(false);
        if (!why.equals(said)) warn(why + "; it is plain Spark until an agent runs");
        said = why;
    }

    /** Runs an agent until it ends; returns why it did; "": it has said why it does nothing. */
    String runAgent() throws InterruptedException, IOException {
        String token = token();
        InetAddress loopback = InetAddress.getLoopbackAddress();
        // Connections back are not used; with a time to keep them, a thread would keep the JVM.
        CallbackClient unused = new CallbackClient(
            0, loopback, token, 0L, TimeUnit.SECONDS, SocketFactory.getDefault(), true, 0);
        GatewayServer gateway = new GatewayServer.GatewayServerBuilder(this).javaPort(0)
            .javaAddress(loopback).authToken(token).callbackClient(unused).build();
        try {
            gateway.start(true);
            listener.resume();
            board.resume();
            try {
                agent = start();
            } catch (IOException failed) {
                return "its agent does not start: " + failed.getMessage();
            }
            TopicastErrors errors = new TopicastErrors(agent.getErrorStream(), board);
            problem = "";
            String line = "{\"gateway\": " + gateway.getListeningPort()
                + ", \"token\": \"" + token + "\", \"attach\": " + settings + "}\n";
            OutputStream stdin = agent.getOutputStream();  // stays open: its end is the agent's
            try {
                stdin.write(line.getBytes("UTF-8"));
                stdin.flush();
            } catch (IOException ended) {  // before it has read: its code says more
            }
            int code = await(agent, errors);
            errors.join(SAID_MS);
            if (code != 0) return ended(code, errors.last());
            errors.pass();
            return "";
        } finally {
            if (agent != null) agent.destroyForcibly();
            agent = null;
            gateway.shutdown();
        }
    }

    static String ended(int code, String last) {
        return "its agent has ended with " + code + (last.isEmpty() ? "" : ": " + last);
    }

    Process start() throws IOException {
        ProcessBuilder builder = new ProcessBuilder(command);
        Map environment = builder.environment();
        environment.putAll(variables);
        if (path.isEmpty()) environment.remove("PYTHONPATH");  // the application's
        else environment.put("PYTHONPATH", path);
        environment.remove("PYTHONHOME");
        builder.directory(new File("/"));  // which Python may put in front of its path
        builder.redirectOutput(Redirect.to(new File("/dev/null")));  // ours may have results
        return builder.start();
    }

    int await(Process agent, TopicastErrors errors) throws InterruptedException {
        long waited = 0L;
        while (!agent.waitFor(LOOK_S, TimeUnit.SECONDS)) {
            if (board.isRead()) errors.pass();
            if (isStopped() && ++waited > STOP_S) agent.destroyForcibly();
        }
        return agent.exitValue();
    }

    static SparkContext active() throws Exception {
        Class module = Class.forName("org.apache.spark.SparkContext$");
        Object found = module.getMethod("getActive", new Class[0])
            .invoke(module.getField("MODULE$").get(null), new Object[0]);
        return ((Option) found).isEmpty() ? null : (SparkContext) ((Option) found).get();
    }

    static String setting(SparkContext context, String name, String variable) {
        SparkConf conf = context.getConf();
        return conf.contains(name) ? conf.get(name) : variable(variable);
    }

    static synchronized String variable(String name) {
        Object found = variables.containsKey(name) ? variables.get(name) : System.getenv(name);
        return found == null ? "" : (String) found;
    }

    /** Takes our variables from what this JVM starts, its Python workers first of all. */
    static synchronized void hide() {
        Map found = System.getenv();
        for (Iterator all = found.keySet().iterator(); all.hasNext();) {
            String name = (String) all.next();
            if (name.startsWith(OURS)) variables.put(name, found.get(name));
        }
        try {
            Class type = Class.forName("java.lang.ProcessEnvironment");
            Field field = type.getDeclaredField("theEnvironment");
            field.setAccessible(true);
            Map inherited = (Map) field.get(null);
            for (Iterator all = inherited.keySet().iterator(); all.hasNext();) {
                if (all.next().toString().startsWith(OURS)) all.remove();
            }
        } catch (Exception closed) {  // Spark's launcher opens java.lang; others may not
        }
    }

    /** Returns what starts an agent: what is set, else the Python that has written the jar. */
    static List command(String set) throws IOException {
        if (!set.isEmpty()) return words(set);
        InputStream file = TopicastBootstrap.class.getResourceAsStream("/" + COMMAND);
        if (file != null) {
            List found = words(new Scanner(file, "UTF-8").nextLine());
            file.close();
            if (new File((String) found.get(0)).canExecute()) return found;
        }
        return words("topicast agent");
    }

    /** Returns the words of a command, of which those in quotes may have blanks. */
    static List words(String command) {
        List found = new ArrayList();
        for (Matcher word = WORD.matcher(command); word.find();) {
            for (int group = 1; group <= 3; group++) {
                if (word.group(group) != null) found.add(word.group(group));
            }
        }
        String program = (String) found.get(0);  // an agent starts in another folder
        if (program.indexOf('/') > 0) found.set(0, new File(program).getAbsolutePath());
        return found;
    }

    /** Returns a class loader of Spark's: that of a shell compiles, and is for one thread. */
    static ClassLoader loader() {
        ClassLoader found = Thread.currentThread().getContextClassLoader();
        while (found != null) {
            String name = found.getClass().getName();
            if (name.startsWith("org.apache.spark.util.") && name.endsWith("ClassLoader")) {
                return found;
            }
            found = found.getParent();
        }
        return TopicastBootstrap.class.getClassLoader();
    }

    static String token() {
        byte[] bytes = new byte[TOKEN_BYTES];
        new SecureRandom().nextBytes(bytes);
        StringBuilder text = new StringBuilder();
        for (int at = 0; at < bytes.length; at++) {
            text.append(Integer.toHexString((bytes[at] & 0xff) + 0x100).substring(1));
        }
        return text.toString();
    }

    static void warn(String why) {
        LoggerFactory.getLogger("topicast").warn("driver is not attached: " + why);
    }
}
