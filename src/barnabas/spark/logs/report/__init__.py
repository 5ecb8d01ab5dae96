"""The report: results as one self-contained HTML file, of the pipeline's topics or of log files."""

from __future__ import annotations

from barnabas.spark.logs.report.html_page import page, write_page, write_report

__all__ = ["page", "write_page", "write_report"]
