"""The command ``topicast pipeline convert``."""

from ....pipeline.conversion.converter import ConvertOptions
from ....pipeline.conversion.report import ConvertReport
from ....pipeline.convert import convert as run
from .frame import Frame, pipeline_command, run_pipeline


@pipeline_command(
    ConvertOptions,
    lambda: {"": ConvertReport},
    defaults={"once": False},
    short_help="Keep a copy of a text table in Parquet or ORC.",
)
def convert(options: ConvertOptions, frame: Frame) -> int:
    """Convert each partition of a table into a copy in Parquet or ORC, once and whole.

    A partition is converted again when its files change. Only one convert into a copy runs at a
    time, and the next run repairs what a killed run has left.
    """
    return run_pipeline("convert", run, options, frame=frame)
