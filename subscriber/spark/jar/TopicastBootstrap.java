import java.io.File;
import java.io.IOException;
import java.io.OutputStream;
import java.lang.ProcessBuilder.Redirect;
import java.net.InetAddress;
import java.security.SecureRandom;
import java.util.Iterator;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
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

/** Keeps an agent beside a driver of the JVM; Spark makes one with each session, by the service file.

    A thread of ours lives as long as a context. Its agent attaches through a gateway of its own. */
public final class TopicastBootstrap extends AbstractFunction1
        implements SparkSessionExtensionsProvider, Runnable {
    private static final String STATESTORES = "spark.topicast.statestores";
    private static final String AGENT = "spark.topicast.agent";
    private static final String[] PYTHON = new String[] {  // what runs in a driver of PySpark's
        "org.apache.spark.deploy.PythonRunner", "org.apache.spark.api.python.PythonGatewayServer"};
    private static final long PAUSE_S = 1L;  // before the second start; doubled each time
    private static final long PAUSE_S_MAX = 60L;
    private static final long STEADY_S = 60L;  // an agent that ran so long: the pause is the first
    private static final long LOOK_S = 1L;  // between two looks whether the context was stopped
    private static final long STOP_S = 5L;  // for an agent to end after its context
    private static final int TOKEN_BYTES = 24;

    private static final ConcurrentHashMap kept = new ConcurrentHashMap();  // survives agents
    private static SparkContext served;  // the last one; null: none yet

    private SparkContext context;
    private String said = "";  // why the last agent ended

    /** Spark's call: begin with the context of now, unless it has its agent. */
    public Object apply(Object extensions) {
        try {
            begin();
        } catch (Throwable failed) {
            warn("it is plain Spark: " + failed);
        }
        return BoxedUnit.UNIT;
    }

    public SparkContext context() {
        return context;
    }

    /** The objects that agents find again, by names of theirs. */
    public Map kept() {
        return kept;
    }

    void begin() throws Exception {
        Class module = Class.forName("org.apache.spark.SparkContext$");
        Object active = module.getMethod("getActive", new Class[0])
            .invoke(module.getField("MODULE$").get(null), new Object[0]);
        if (((Option) active).isEmpty()) return;
        SparkContext found = (SparkContext) ((Option) active).get();
        if (setting(found, STATESTORES, "TOPICAST_STATESTORES").isEmpty()) return;
        synchronized (TopicastBootstrap.class) {
            if (found == served) return;
            served = found;
        }
        if (isOfPython()) return;
        context = found;
        Thread thread = new Thread(this, "topicast-bootstrap");
        thread.setDaemon(true);
        thread.setContextClassLoader(loader());
        thread.start();
    }

    public void run() {
        long pause = PAUSE_S;
        try {
            while (!context.isStopped()) {
                long began = System.nanoTime();
                String why = runAgent();
                if (why.isEmpty() || context.isStopped()) return;
                if (System.nanoTime() - began > STEADY_S * 1000000000L) pause = PAUSE_S;
                if (!why.equals(said)) warn(why + "; it is plain Spark until an agent runs");
                said = why;
                Thread.sleep(pause * 1000L);
                pause = Math.min(2L * pause, PAUSE_S_MAX);
            }
        } catch (Throwable failed) {
            warn("it is plain Spark: " + failed);
        }
    }

    /** Runs an agent until it ends; returns why it did; "": it has said why it does nothing. */
    String runAgent() throws InterruptedException {
        String token = token();
        InetAddress loopback = InetAddress.getLoopbackAddress();
        // Connections back are not used; with a time to keep them, a thread would keep the JVM.
        CallbackClient unused = new CallbackClient(
            0, loopback, token, 0L, TimeUnit.SECONDS, SocketFactory.getDefault(), true, 0);
        GatewayServer gateway = new GatewayServer.GatewayServerBuilder(this).javaPort(0)
            .javaAddress(loopback).authToken(token).callbackClient(unused).build();
        gateway.start(true);
        Process agent = null;
        try {
            agent = start();
            String line = "{\"gateway\": " + gateway.getListeningPort()
                + ", \"token\": \"" + token + "\"}\n";
            OutputStream stdin = agent.getOutputStream();  // stays open: its end is the agent's
            stdin.write(line.getBytes("UTF-8"));
            stdin.flush();
            int code = await(agent);
            return code == 0 ? "" : "its agent has ended with " + code;
        } catch (IOException failed) {
            return "its agent does not start: " + failed.getMessage();
        } finally {
            if (agent != null) agent.destroyForcibly();
            gateway.shutdown();
        }
    }

    Process start() throws IOException {
        String command = setting(context, AGENT, "TOPICAST_AGENT");
        if (command.isEmpty()) command = "topicast agent";
        ProcessBuilder builder = new ProcessBuilder(command.trim().split("\\s+"));
        Map environment = builder.environment();
        environment.remove("PYTHONPATH");  // the application's
        environment.remove("PYTHONHOME");
        builder.directory(new File("/"));  // which Python may put in front of its path
        builder.redirectOutput(Redirect.to(new File("/dev/null")));  // ours may have results
        builder.redirectError(Redirect.INHERIT);
        return builder.start();
    }

    int await(Process agent) throws InterruptedException {
        long stopped = 0L;
        while (!agent.waitFor(LOOK_S, TimeUnit.SECONDS)) {
            if (context.isStopped() && ++stopped > STOP_S) agent.destroyForcibly();
        }
        return agent.exitValue();
    }

    static String setting(SparkContext context, String name, String variable) {
        SparkConf conf = context.getConf();
        if (conf.contains(name)) return conf.get(name);
        String found = System.getenv(variable);
        return found == null ? "" : found;
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

    static boolean isOfPython() {
        if (System.getenv("_PYSPARK_DRIVER_CONN_INFO_PATH") != null) return true;
        for (Iterator all = Thread.getAllStackTraces().values().iterator(); all.hasNext();) {
            StackTraceElement[] frames = (StackTraceElement[]) all.next();
            for (int at = 0; at < frames.length; at++) {
                String name = frames[at].getClassName();
                if (name.startsWith(PYTHON[0]) || name.startsWith(PYTHON[1])) return true;
            }
        }
        return false;
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
