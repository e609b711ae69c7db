"""The command ``topicast pipeline files``."""

from dataclasses import replace

from ....pipeline.files import FilesOptions, files
from ....pipeline.sweep.report import FilesReport
from ...options.flags import Documents
from ...terminal.output import Output
from ...terminal.schemas import Fields, Iso, fields_of
from .frame import Frame, pipeline_command, run_pipeline


def _documents() -> Documents:
    found = fields_of(FilesReport).without(("newest_ms",)).but(newest=(Iso, None))
    return {"": found, "--watch": (Fields({"changed": str}), found)}


@pipeline_command(
    FilesOptions,
    _documents,
    name="files",
    short_help="List the files of tables; report changes that made no event.",
)
def list_files(options: FilesOptions, frame: Frame) -> int:
    """List the files of tables and partitions, and report changes that made no event.

    After the run, attached drivers read the files that were put under tables without an event or a
    report. catalogd keeps what a run has found, so the next run lists only what may have changed,
    and continues a run that was killed; --full lists everything; --dry_run counts the LIST requests
    beforehand. With --watch a new file is found within a second if the file system keeps the times
    of folders (local disks, HDFS), and all tables are swept again and again.
    """
    output = Output(frame.output)

    def show_change(name: str) -> None:
        output.item({"changed": name}, text=f"changed: {name}")

    shown = replace(options, on_change=show_change) if options.watch else options
    return run_pipeline("files", files, shown, frame=frame)
