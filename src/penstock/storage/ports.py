"""The ports as both stores implement them: the modules of commands themselves."""

from __future__ import annotations

from penstock.domain.ports.access import AccessPort
from penstock.domain.ports.admin import AdminPort
from penstock.domain.ports.control import ControlPort
from penstock.domain.ports.feed import FeedPort
from penstock.domain.ports.jobs import JobsPort
from penstock.domain.ports.schedules import SchedulesPort
from penstock.domain.ports.webhooks import WebhooksPort
from penstock.storage.commands import access as _access
from penstock.storage.commands import admin as _admin
from penstock.storage.commands import control as _control
from penstock.storage.commands import feed as _feed
from penstock.storage.commands import jobs as _jobs
from penstock.storage.commands import schedules as _schedules
from penstock.storage.commands import webhooks as _webhooks

jobs: JobsPort = _jobs
control: ControlPort = _control
schedules: SchedulesPort = _schedules
feed: FeedPort = _feed
admin: AdminPort = _admin
access: AccessPort = _access
webhooks: WebhooksPort = _webhooks
