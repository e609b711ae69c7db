"""A YARN on this machine: one JVM with its two daemons, which starts a driver in each container."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

import psutil
import pyspark
from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway

INSTALLED: Final = Path(__file__).parents[3] / ".venv" / "yarn" / "jars"
BRIDGE: Final = Path(pyspark.__file__).parent / "jars"
FIFO: Final = "org.apache.hadoop.yarn.server.resourcemanager.scheduler.fifo.FifoScheduler"
SETTINGS: Final = {
    "yarn.resourcemanager.scheduler.class": FIFO,  # the other ones need files
    "yarn.nodemanager.vmem-check-enabled": "false",
    "yarn.nodemanager.pmem-check-enabled": "false",
    "yarn.nodemanager.disk-health-checker.max-disk-utilization-per-disk-percentage": "100",
    "yarn.nodemanager.delete.debug-delay-sec": "600",  # what containers have logged
}


@contextmanager
def yarn(folder: Path) -> Iterator[Path]:
    """Run it in ``folder`` until the block ends; yield the folder of its configuration."""
    assert INSTALLED.exists(), "make compat-jvm installs it"
    (bridge,) = BRIDGE.glob("py4j-*.jar")
    log = (folder / "yarn.log").open("wb")
    port, token, process = launch_gateway(
        jarpath=str(bridge),
        classpath=str(INSTALLED / "*"),
        javaopts=["--add-opens=java.base/java.lang=ALL-UNNAMED"],
        die_on_exit=True,
        enable_auth=True,
        return_proc=True,
        redirect_stdout=log,
        redirect_stderr=log,
        cwd=str(folder),
    )
    gateway = JavaGateway(gateway_parameters=GatewayParameters(port=port, auth_token=token))
    try:
        jvm = gateway.jvm
        conf = jvm.org.apache.hadoop.yarn.conf.YarnConfiguration()
        for name, value in SETTINGS.items():
            conf.set(name, value)
        cluster = jvm.org.apache.hadoop.yarn.server.MiniYARNCluster("topicast", 1, 1, 1)
        cluster.init(conf)
        cluster.start()
        site = folder / "conf"
        site.mkdir()
        text = jvm.java.io.StringWriter()
        cluster.getConfig().writeXml(text)
        (site / "yarn-site.xml").write_text(str(text.toString()))
        yield site
    finally:
        below = psutil.Process(process.pid).children(recursive=True)
        gateway.close()
        process.stdin.close()
        process.kill()
        process.wait()
        for one in below:  # containers, in groups of their own
            with suppress(psutil.Error):  # it has ended by itself
                one.kill()
        log.close()
