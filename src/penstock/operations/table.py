"""Which function carries out which operation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from penstock.operations import (
    audit,
    creation,
    definitions,
    events,
    job_changes,
    job_reading,
    monitoring,
    schedules,
    tokens,
    webhooks,
    workers,
)
from penstock.operations.session import Carrier
from penstock.surface import audit as of_audit
from penstock.surface import definitions as of_definitions
from penstock.surface import events as of_events
from penstock.surface import jobs as of_jobs
from penstock.surface import monitoring as of_monitoring
from penstock.surface import schedules as of_schedules
from penstock.surface import tokens as of_tokens
from penstock.surface import webhooks as of_webhooks
from penstock.surface import workers as of_workers
from penstock.surface.session import Operation

OPERATIONS: Mapping[type[Operation[Any]], Carrier] = {
    of_jobs.ListJobs: job_reading.list_jobs,
    of_jobs.CountJobs: job_reading.count_jobs,
    of_jobs.ReadJob: job_reading.read_job,
    of_jobs.WaitForJob: job_reading.wait_for_job,
    of_jobs.ReadAttempts: job_reading.read_attempts,
    of_jobs.ReadLogs: job_reading.read_logs,
    of_jobs.ReadPhases: job_reading.read_phases,
    of_jobs.ExplainJob: job_reading.explain_job,
    of_jobs.CancelJob: job_changes.cancel_job,
    of_jobs.RetryJob: job_changes.retry_job,
    of_jobs.RerunJob: creation.rerun_job,
    of_jobs.ApproveJob: job_changes.approve_job,
    of_jobs.RejectJob: job_changes.reject_job,
    of_jobs.DeleteJob: job_changes.delete_job,
    of_jobs.RescheduleJob: job_changes.reschedule_job,
    of_jobs.ReprioritiseJob: job_changes.reprioritise_job,
    of_jobs.ChangeInBulk: job_changes.change_in_bulk,
    of_definitions.ListDefinitions: definitions.list_definitions,
    of_definitions.DeclaredDefinitions: definitions.declared_definitions,
    of_definitions.RegisterDefinitions: creation.register_definitions,
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
    of_schedules.DeclareSchedule: schedules.declare_schedule,
    of_schedules.DeclaredSchedules: schedules.declared_schedules,
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
    of_webhooks.ReadWebhookSettings: webhooks.read_settings,
    of_webhooks.UseWebhookSettings: webhooks.use_settings,
    of_tokens.CreateToken: tokens.create_token,
    of_tokens.ListTokens: tokens.list_tokens,
    of_tokens.CountUsableTokens: tokens.count_usable_tokens,
    of_tokens.NeedsToken: tokens.needs_token,
    of_tokens.OpenAccess: tokens.open_access,
    of_tokens.RevokeToken: tokens.revoke_token,
    of_tokens.Authenticate: tokens.authenticate,
    of_tokens.OpenSession: tokens.open_session,
    of_tokens.ReadSessionToken: tokens.read_session_token,
    of_tokens.CloseSession: tokens.close_session,
    of_tokens.TakeAllowance: tokens.take_allowance,
    of_events.FindCursor: events.find_cursor,
    of_events.NextEvents: events.next_events,
    of_monitoring.ReadStats: monitoring.read_stats,
    of_monitoring.ReadTotals: monitoring.read_totals,
    of_monitoring.ReadCounts: monitoring.read_counts,
    of_monitoring.ListErrors: monitoring.list_errors,
    of_monitoring.ListAlerts: monitoring.list_alerts,
    of_monitoring.ListPastAlerts: monitoring.list_past_alerts,
    of_monitoring.ListClockMarks: monitoring.list_clock_marks,
    of_monitoring.SetClockMarksBack: monitoring.set_clock_marks_back,
    of_audit.ListAudit: audit.list_audit,
}
