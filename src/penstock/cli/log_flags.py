"""The flags for the log of commands that run for long."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from penstock.config.logging import Format, Level, configure

LogFormat = Annotated[
    Format, Parameter(help="How the log is written to stderr: for people, or one JSON object a line.",
                      env_var="PENSTOCK_LOG_FORMAT")
]  # fmt: skip
LogLevel = Annotated[
    Level, Parameter(help="The least level of what is logged; debug tells of every attempt.",
                     env_var="PENSTOCK_LOG_LEVEL")
]  # fmt: skip

__all__ = ["LogFormat", "LogLevel", "configure"]
