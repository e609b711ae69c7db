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

    Spark makes an object of this class for each session, as the service file tells it, and calls
    apply() in the thread that makes the session. Where the jar is not on the class path, the
    driver's Python calls attach(). One object serves a context: its listener queues what is
    executed, and its thread runs one agent after the other. An agent attaches through a gateway of
    Py4J that is made for it; the driver's Python asks the agent by the board. The lock of the class
    guards which object serves. */
public final class TopicastBootstrap extends AbstractFunction1
        implements SparkSessionExtensionsProvider, Runnable {
    private static final String RELEASE = "@RELEASE@";  // of Topicast, which an agent must have
    private static final String STATESTORES = "spark.topicast.statestores";
    private static final String AGENT = "spark.topicast.agent";
    private static final String OURS = "TOPICAST_";  // begins the names of our variables
    private static final String COMMAND = "topicast-agent";  // file of the jar: the agent's command
    private static final Pattern WORD = Pattern.compile("\"([^\"]*)\"|'([^']*)'|(\\S+)");
    private static final long PAUSE_S = 1L;  // before the second start; doubled each time
    private static final long PAUSE_S_MAX = 60L;
    private static final long STEADY_S = 60L;  // after an agent that ran so long: PAUSE_S again
    private static final long LOOK_S = 1L;  // between two looks whether the context was stopped
    private static final long STOP_S = 5L;  // an agent may take so long to end after its context
    private static final long SAID_MS = 1000L;  // to read the last errors of an ended agent
    private static final int TOKEN_BYTES = 24;

    private static final HashMap variables = new HashMap();  // ours, which children do not inherit
    private static final ConcurrentHashMap kept = new ConcurrentHashMap();  // the agents' objects
    private static TopicastBootstrap serving;  // of the last context; null: there is none
    private static WeakReference detached = new WeakReference(null);  // the last such context

    private final TopicastListener listener = new TopicastListener();
    private final TopicastBoard board = new TopicastBoard();
    private final List sessions = new ArrayList();  // weak references: those that Python has
    private SparkContext context;
    private List command;  // that starts an agent
    private String path = "";  // PYTHONPATH of agents, if they run in the driver's Python; else ""
    private String settings = "{}";  // arguments of attach(), as JSON
    private volatile String control = "";  // that the application has set since; "": none
    private volatile String problem = "";  // why there is no agent; "": there is one, or it starts
    private volatile boolean stopped;  // Python has detached the context
    private volatile Process agent;  // null: none runs
    private String said = "";  // the last problem that was logged

    /** Called by Spark for each session: serves the active context, if it names statestores. */
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

    /** Returns the object that serves a context; a new one if the context was detached. Caller: the
        driver's Python. */
    public TopicastBootstrap attach(SparkContext found, List command, String path,
            String settings) {
        synchronized (TopicastBootstrap.class) {
            if (detached.get() == found) detached.clear();
            return serve(found, command, path, settings);
        }
    }

    /** Returns the object that serves a context; null if Python has detached the context: a new
        session of Spark's does not attach it again. */
    static TopicastBootstrap serve(SparkContext found, List command, String path,
            String settings) {
        synchronized (TopicastBootstrap.class) {
            if (serving != null && serving.context == found) return serving;
            if (detached.get() == found) return null;
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

    /** Returns the objects that agents leave in the JVM, so that the next agent finds them. */
    public Map kept() {
        return kept;
    }

    public String problem() {
        return problem;
    }

    public boolean isStopped() {
        return stopped || context.isStopped();
    }

    /** Sets the control that each later agent begins with. */
    public void control(String control) {
        this.control = control;
    }

    /** Returns what the application has set; "" if its settings hold. */
    public String control() {
        return control;
    }

    /** Adds a session that the driver's Python has, unless it is of another context. */
    public void add(Object session) throws Exception {
        Object of = session.getClass().getMethod("sparkContext", new Class[0])
            .invoke(session, new Object[0]);
        if (of != context) return;
        synchronized (sessions) {
            if (!sessions().contains(session)) sessions.add(new WeakReference(session));
        }
        listener.adopt(session);
    }

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

    /** Queues a refresh that Python has called, for which Spark posts no execution. */
    public void report(String what, Object session, String name) {
        List of = new ArrayList();
        of.add(session);
        of.add(name);
        listener.add(what, of);
    }

    /** Waits at most ms until the agent has handled what was executed; returns whether it has.
        Caller: methods of PySpark that write, before they return. */
    public boolean settle(long ms) throws InterruptedException {
        return agent != null && !isStopped() && listener.settle(context, ms);
    }

    /** Detaches the context: the agent ends, the queue is discarded, and Spark is plain Spark. */
    public void stop() {
        stopped = true;
        synchronized (TopicastBootstrap.class) {
            if (serving == this) detached = new WeakReference(context);
        }
        leave();
        context.removeSparkListener(listener);
        listener.stop();
        board.run();
    }

    /** Runs one agent after the other until the context ends, or until an agent ends with 0. A
        failure to start, such as one for want of memory or of file descriptors, is tried again. */
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
            if (context.isStopped()) leave();
        }
    }

    /** Lets the JVM discard this object and, once it has ended, its context. */
    void leave() {
        synchronized (TopicastBootstrap.class) {
            if (serving == this) serving = null;
        }
    }

    /** Logs why there is no agent, unless the last line said so. The end of the application waits
        for no first agent any more. */
    void say(String why) {
        problem = why;
        listener.expect(false);
        if (!why.equals(said)) warn(why + "; it is plain Spark until an agent runs");
        said = why;
    }

    /** Runs an agent until it ends. Returns why it ended; "" if it ended with 0, which it does when
        it is told to end, or has said itself why it does nothing. */
    String runAgent() throws InterruptedException, IOException {
        String token = token();
        InetAddress loopback = InetAddress.getLoopbackAddress();
        // Python calls Java, but not the other way round. With a time to keep its connections alive
        // the client for that would have a thread, which would keep the JVM from ending.
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
            OutputStream stdin = agent.getOutputStream();  // stays open: the agent ends with it
            try {
                stdin.write(line.getBytes("UTF-8"));
                stdin.flush();
            } catch (IOException ended) {  // the agent has ended already: its exit code says more
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
        if (path.isEmpty()) environment.remove("PYTHONPATH");  // it is the application's
        else environment.put("PYTHONPATH", path);
        environment.remove("PYTHONHOME");
        builder.directory(new File("/"));  // Python may import from its working directory
        builder.redirectOutput(Redirect.to(new File("/dev/null")));  // the driver's has results
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

    /** Removes our variables from the environment that children of this JVM inherit, such as Python
        workers of executors, and keeps them for agents. */
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
        } catch (Exception closed) {  // java.lang is not open, as Spark's launcher has it
        }
    }

    /** Returns the command that starts an agent: what is set, else the Python that wrote the jar if
        this machine has it, else "topicast agent" of the PATH. */
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

    /** Returns the words of a command; a word in quotes may have blanks. */
    static List words(String command) {
        List found = new ArrayList();
        for (Matcher word = WORD.matcher(command); word.find();) {
            for (int group = 1; group <= 3; group++) {
                if (word.group(group) != null) found.add(word.group(group));
            }
        }
        String program = (String) found.get(0);  // absolute, because agents start in another folder
        if (program.indexOf('/') > 0) found.set(0, new File(program).getAbsolutePath());
        return found;
    }

    /** Returns the nearest class loader of Spark's own. A shell's loader compiles classes, and must
        be used by one thread alone. */
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
