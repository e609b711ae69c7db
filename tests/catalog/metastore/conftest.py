"""What only later releases of Hive do is tried where a release is named: ``make compat-hive``."""

from topicast.tests.hive.releases import home

collect_ignore = [] if home() else ["test_releases.py"]
