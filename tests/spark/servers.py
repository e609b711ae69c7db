"""Servers that a driver hosts for sessions of others: Thrift (JDBC), and Spark Connect."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from topicast.tests.cli.processes import steady_port
from topicast.tests.spark.applications import Application, Failed
from topicast.tests.waiting import until

UP_S: Final = 60.0
THRIFT: Final = """
spark.conf.set("hive.server2.thrift.bind.host", "127.0.0.1")
spark.conf.set("hive.server2.thrift.port", "{port}")

def serve():
    global served
    servers = spark._jvm.org.apache.spark.sql.hive.thriftserver.HiveThriftServer2
    served = servers.startWithContext(spark._jsparkSession.sqlContext())

from threading import Thread
starting = Thread(target=serve)  # one that has run a statement has Hive's settings of that time
starting.start()
starting.join()
"""
JDBC: Final = """
java = spark._jvm.java
_ = java.lang.Class.forName("org.apache.hive.jdbc.HiveDriver")
link = java.sql.DriverManager.getConnection("jdbc:hive2://127.0.0.1:{port}/default")

def jdbc(text):
    statement = link.createStatement()
    try:
        if not statement.execute(text):
            return []
        found, rows = statement.getResultSet(), []
        width = found.getMetaData().getColumnCount()
        while found.next():
            rows.append([found.getString(at) for at in range(1, width + 1)])
        return sorted(rows, key=str)
    except Exception as error:
        return str(error.java_exception.getMessage())
    finally:
        statement.close()
"""
CONNECT: Final = """
settings = spark.sparkContext._jsc.sc().conf()
settings.set("spark.connect.grpc.binding.address", "127.0.0.1")
settings.set("spark.connect.grpc.binding.port", "0")
service = getattr(spark._jvm.org.apache.spark.sql.connect.service, "SparkConnectService$")
service = getattr(service, "MODULE$")
service.start(spark.sparkContext._jsc.sc())
"""
CONNECT_ENDS: Final = """
none = spark._jvm.scala.Option.empty()
service.stop(none, none)
"""


@contextmanager
def jdbc_session(guest: Application, port: int) -> Iterator[None]:
    """Let ``jdbc`` in ``guest`` run statements in a session of the Thrift server at ``port``."""
    until(lambda: _is_connected(guest, port), timeout_s=UP_S, what="a Thrift server's port")
    try:
        yield
    finally:
        guest.do("_ = link.close()")


@contextmanager
def thrift_server(host: Application, guest: Application) -> Iterator[None]:
    """Have ``host`` host a Thrift server, of which ``guest`` has a session: ``jdbc_session``."""
    port = steady_port()
    host.do(THRIFT.format(port=port))
    try:
        with jdbc_session(guest, port):
            yield
    finally:
        host.do("_ = served.stop()")


@contextmanager
def connect_server(host: Application) -> Iterator[str]:
    """Have ``host`` host a server of Spark Connect, and yield its address."""
    host.do(CONNECT)
    try:
        yield f"sc://127.0.0.1:{host.do('service.localPort()')}"
    finally:
        host.do(CONNECT_ENDS)


def _is_connected(guest: Application, port: int) -> bool:
    try:
        guest.do(JDBC.format(port=port))
    except Failed:  # it is starting
        return False
    return True
