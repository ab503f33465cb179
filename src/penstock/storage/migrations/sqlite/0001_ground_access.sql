
-- Access: tokens and their sessions. Of their secrets only digests are stored.
CREATE TABLE token (
    id TEXT PRIMARY KEY,
    digest TEXT NOT NULL CHECK (length(digest) = 64),
    name TEXT NOT NULL,
    role TEXT NOT NULL CHECK (role IN ('viewer', 'creator', 'admin', 'super_admin')),
    created_at INTEGER NOT NULL,
    created_by TEXT NOT NULL,
    expires_at INTEGER,
    revoked_at INTEGER,
    last_used_at INTEGER
) STRICT, WITHOUT ROWID;
CREATE TABLE session (
    id TEXT PRIMARY KEY,
    digest TEXT NOT NULL CHECK (length(digest) = 64),
    token_id TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    expires_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
-- Since when a caller needs a token: the first token sets it, and only an operator on the host clears it.
CREATE TABLE access (
    one INTEGER PRIMARY KEY DEFAULT 1 CHECK (one = 1),
    closed_at INTEGER
) STRICT;
INSERT INTO access DEFAULT VALUES;
CREATE INDEX session_token ON session (token_id);
CREATE INDEX session_expiry ON session (expires_at);
CREATE INDEX audit_actor ON audit (actor, seq);
CREATE INDEX audit_target ON audit (target, seq);

-- Webhooks: endpoints, deliveries, and the feed cursor.
CREATE INDEX job_detail_webhook ON job_detail (id) WHERE webhook_url IS NOT NULL;
CREATE TABLE webhook (
    id TEXT PRIMARY KEY,
    url TEXT NOT NULL,
    description TEXT NOT NULL,
    kinds TEXT NOT NULL,
    definitions TEXT NOT NULL,
    enabled INTEGER NOT NULL,
    disabled_reason TEXT,
    secret TEXT NOT NULL,
    old_secret TEXT,
    old_secret_until INTEGER,
    since INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    revision INTEGER NOT NULL DEFAULT 1
) STRICT, WITHOUT ROWID;
-- Endpoints, and the hosts of other URLs: how well they are, and whose turn it is.
CREATE TABLE receiver (
    key TEXT PRIMARY KEY,
    failures INTEGER NOT NULL DEFAULT 0,
    open_until INTEGER,
    last_success_at INTEGER,
    last_failure_at INTEGER,
    failing_since INTEGER,
    failing_tries INTEGER NOT NULL DEFAULT 0,
    served_at INTEGER NOT NULL DEFAULT 0
) STRICT, WITHOUT ROWID;
CREATE TABLE delivery (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL UNIQUE,
    endpoint TEXT NOT NULL,
    event_seq INTEGER NOT NULL,
    receiver TEXT NOT NULL,
    url TEXT NOT NULL,
    kind TEXT NOT NULL,
    job_id TEXT,
    body TEXT NOT NULL,
    status TEXT NOT NULL DEFAULT 'waiting' CHECK (status IN ('waiting', 'delivered', 'failed')),
    tries INTEGER NOT NULL DEFAULT 0,
    earlier_tries INTEGER NOT NULL DEFAULT 0,
    due_at INTEGER NOT NULL,
    owner TEXT,
    created_at INTEGER NOT NULL,
    ended_at INTEGER,
    status_code INTEGER,
    error TEXT,
    UNIQUE (endpoint, event_seq),
    CONSTRAINT delivery_ended CHECK ((ended_at IS NOT NULL) = (status <> 'waiting')),
    CONSTRAINT delivery_owned CHECK (owner IS NULL OR status = 'waiting')
) STRICT;
CREATE INDEX delivery_waiting ON delivery (receiver, due_at, seq) WHERE status = 'waiting';
CREATE INDEX delivery_taken ON delivery (receiver, due_at) WHERE status = 'waiting' AND owner IS NOT NULL;
CREATE INDEX delivery_due ON delivery (due_at) WHERE status = 'waiting';
CREATE INDEX delivery_job ON delivery (job_id, seq) WHERE job_id IS NOT NULL;
CREATE INDEX delivery_endpoint ON delivery (endpoint, seq);
CREATE INDEX delivery_age ON delivery (created_at);
CREATE TABLE delivery_try (
    delivery INTEGER NOT NULL REFERENCES delivery (seq) ON DELETE CASCADE,
    number INTEGER NOT NULL,
    at INTEGER NOT NULL,
    duration INTEGER NOT NULL,
    status_code INTEGER,
    error TEXT,
    excerpt TEXT,
    PRIMARY KEY (delivery, number)
) STRICT, WITHOUT ROWID;
CREATE TABLE webhook_feed (
    one INTEGER PRIMARY KEY DEFAULT 1 CHECK (one = 1),
    cursor TEXT,
    moved_at INTEGER NOT NULL DEFAULT 0,
    since INTEGER NOT NULL DEFAULT 0
) STRICT;
INSERT INTO webhook_feed (one) VALUES (1);

-- Alerts: since when, and until when. At most one of each kind and subject is raised at a time.
CREATE TABLE alert (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    kind TEXT NOT NULL,
    subject TEXT NOT NULL,
    message TEXT NOT NULL,
    severity TEXT NOT NULL CHECK (severity IN ('warning', 'critical')),
    since INTEGER,
    raised_at INTEGER NOT NULL,
    cleared_at INTEGER
) STRICT;
CREATE UNIQUE INDEX alert_standing ON alert (kind, subject) WHERE cleared_at IS NULL;
CREATE INDEX alert_cleared ON alert (cleared_at) WHERE cleared_at IS NOT NULL;
