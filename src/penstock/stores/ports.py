"""The ports as both stores fulfil them: the modules of verbs themselves."""

from __future__ import annotations

from penstock.core.ports import AccessPort, AdminPort, ControlPort, FeedPort, JobsPort, SchedulesPort, WebhooksPort
from penstock.stores.verbs import access as _access
from penstock.stores.verbs import admin as _admin
from penstock.stores.verbs import control as _control
from penstock.stores.verbs import feed as _feed
from penstock.stores.verbs import jobs as _jobs
from penstock.stores.verbs import schedules as _schedules
from penstock.stores.verbs import webhooks as _webhooks

jobs: JobsPort = _jobs
control: ControlPort = _control
schedules: SchedulesPort = _schedules
feed: FeedPort = _feed
admin: AdminPort = _admin
access: AccessPort = _access
webhooks: WebhooksPort = _webhooks
