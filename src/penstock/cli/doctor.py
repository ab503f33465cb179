"""`penstock doctor`: diagnose the store, its jobs and this host."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

from cyclopts import Parameter

from penstock.cli.db import AsJson, Url, print_findings
from penstock.config.project_file import load


def doctor(
    *,
    url: Url = None,
    strict: Annotated[bool, Parameter(help="Exit with 1 for warnings too.", negative="")] = False,
    quiet: Annotated[bool, Parameter(help="Show problems only.", negative="")] = False,
    as_json: AsJson = False,
) -> int:
    """Diagnose the store, its jobs and this host, and say what to do; nothing is changed.

    Exit code 0 if nothing is wrong or there are warnings only, 1 if something is wrong.

    """
    from penstock.domain.maintenance import Level
    from penstock.maintenance.doctor import examine
    from penstock.storage import open_store

    found = load()
    address = (found if url is None else replace(found, store=url)).address
    address.pop("queue", None)
    store = open_store(address.pop("store"), **{**address, "migrate": False})
    try:
        findings = examine(store)
    finally:
        store.close()
    print_findings([each for each in findings if not quiet or each.level is not Level.OK], as_json=as_json)
    bad = (Level.ERROR, Level.WARNING) if strict else (Level.ERROR,)
    return 1 if any(each.level in bad for each in findings) else 0
