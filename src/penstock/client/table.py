"""Which route carries which operation; waits for jobs are streams, in `session.py`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from penstock.client.exchange import Talk
from penstock.client.routes import audit, definitions, jobs, monitoring, schedules, tokens, webhooks, workers
from penstock.surface import audit as of_audit
from penstock.surface import definitions as of_definitions
from penstock.surface import jobs as of_jobs
from penstock.surface import monitoring as of_monitoring
from penstock.surface import schedules as of_schedules
from penstock.surface import tokens as of_tokens
from penstock.surface import webhooks as of_webhooks
from penstock.surface import workers as of_workers
from penstock.surface.session import Operation

Route = Callable[[Any], Talk[Any]]
"""Encodes an operation as requests, and decodes the answers."""

ROUTES: Mapping[type[Operation[Any]], Route] = {
    of_jobs.ListJobs: jobs.list_jobs,
    of_jobs.CountJobs: jobs.count_jobs,
    of_jobs.ReadJob: jobs.read_job,
    of_jobs.ReadAttempts: jobs.read_attempts,
    of_jobs.ReadLogs: jobs.read_logs,
    of_jobs.ReadPhases: jobs.read_phases,
    of_jobs.ExplainJob: jobs.explain_job,
    of_jobs.CancelJob: jobs.cancel_job,
    of_jobs.RetryJob: jobs.retry_job,
    of_jobs.RerunJob: jobs.rerun_job,
    of_jobs.ApproveJob: jobs.approve_job,
    of_jobs.RejectJob: jobs.reject_job,
    of_jobs.DeleteJob: jobs.delete_job,
    of_jobs.RescheduleJob: jobs.reschedule_job,
    of_jobs.ReprioritiseJob: jobs.reprioritise_job,
    of_jobs.ChangeInBulk: jobs.change_in_bulk,
    of_definitions.ListDefinitions: definitions.list_definitions,
    of_definitions.EnableDefinition: definitions.enable_definition,
    of_definitions.DisableDefinition: definitions.disable_definition,
    of_definitions.RetireDefinition: definitions.retire_definition,
    of_definitions.RemoveDefinition: definitions.remove_definition,
    of_definitions.PauseDefinition: definitions.pause_definition,
    of_definitions.ResumeDefinition: definitions.resume_definition,
    of_definitions.PauseAll: definitions.pause_all,
    of_definitions.ResumeAll: definitions.resume_all,
    of_definitions.ReadSystemPause: definitions.read_system_pause,
    of_definitions.OverrideDefinition: definitions.override_definition,
    of_schedules.ListSchedules: schedules.list_schedules,
    of_schedules.GetSchedule: schedules.get_schedule,
    of_schedules.SaveSchedule: schedules.save_schedule,
    of_schedules.ChangeSchedule: schedules.change_schedule,
    of_schedules.DeleteSchedule: schedules.delete_schedule,
    of_schedules.PauseSchedule: schedules.pause_schedule,
    of_schedules.ResumeSchedule: schedules.resume_schedule,
    of_schedules.TriggerSchedule: schedules.trigger_schedule,
    of_schedules.ReadTicks: schedules.read_ticks,
    of_schedules.PreviewSchedule: schedules.preview_schedule,
    of_schedules.PreviewUnsaved: schedules.preview_unsaved,
    of_workers.ListWorkers: workers.list_workers,
    of_workers.ReadConfiguration: workers.read_configuration,
    of_workers.ConfigureWorkers: workers.configure_workers,
    of_webhooks.SaveWebhook: webhooks.save_webhook,
    of_webhooks.ListWebhooks: webhooks.list_webhooks,
    of_webhooks.GetWebhook: webhooks.get_webhook,
    of_webhooks.DeleteWebhook: webhooks.delete_webhook,
    of_webhooks.RotateSecret: webhooks.rotate_secret,
    of_webhooks.TestWebhook: webhooks.send_test,
    of_webhooks.ListDeliveries: webhooks.list_deliveries,
    of_webhooks.GetDelivery: webhooks.get_delivery,
    of_webhooks.Redeliver: webhooks.redeliver,
    of_tokens.CreateToken: tokens.create_token,
    of_tokens.ListTokens: tokens.list_tokens,
    of_tokens.RevokeToken: tokens.revoke_token,
    of_monitoring.ReadStats: monitoring.read_stats,
    of_monitoring.ReadCounts: definitions.read_counts,
    of_monitoring.ListErrors: monitoring.list_errors,
    of_monitoring.ListAlerts: monitoring.list_alerts,
    of_monitoring.ListPastAlerts: monitoring.list_past_alerts,
    of_audit.ListAudit: audit.list_audit,
}
