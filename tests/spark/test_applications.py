"""Applications answer through all that is printed beside; their JVMs have room to compile.

The reader is left alone: what has not been used yet is needed so by others.
"""

from topicast.tests.spark.conftest import Drivers

POOLS = "spark._jvm.java.lang.management.ManagementFactory.getMemoryPoolMXBeans()"


def test_what_others_print_is_not_an_answer(drivers: Drivers) -> None:
    drivers.writer.do("os.write(1, b'by a process'); print('by Python')")
    drivers.writer.do("spark._jvm.System.out.println('by the JVM')")
    assert drivers.writer.do("6 * 7") == 42


def test_compiled_code_has_room(drivers: Drivers) -> None:
    code = f"[pool.getUsage().getMax() for pool in {POOLS} if 'Code' in pool.getName()]"
    assert sum(drivers.writer.do(code)) > 200 << 20
