"""The command ``topicast pipeline export``."""

from ....pipeline.export import ExportOptions, ExportReport
from ....pipeline.export import export as write
from ...options.flags import Documents
from ...terminal.schemas import Iso, fields_of
from .frame import Frame, pipeline_command, run_pipeline


def _documents() -> Documents:
    return {"PATH": fields_of(ExportReport).but(at=Iso)}


@pipeline_command(
    ExportOptions, _documents, short_help="Write the catalog and its changes as Parquet."
)
def export(options: ExportOptions, frame: Frame) -> int:
    """Write the catalog as Parquet below PATH, and its changes since the last run.

    docs/pipelines.md describes the files.
    """
    return run_pipeline("export", write, options, frame=frame, metastore=False)
