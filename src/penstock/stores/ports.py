"""The five ports as both stores fulfil them: the modules of verbs themselves."""

from __future__ import annotations

from penstock.core.ports import AdminPort, ControlPort, FeedPort, JobsPort, SchedulesPort
from penstock.stores.verbs import admin as _admin
from penstock.stores.verbs import control as _control
from penstock.stores.verbs import feed as _feed
from penstock.stores.verbs import jobs as _jobs
from penstock.stores.verbs import schedules as _schedules

jobs: JobsPort = _jobs
control: ControlPort = _control
schedules: SchedulesPort = _schedules
feed: FeedPort = _feed
admin: AdminPort = _admin
