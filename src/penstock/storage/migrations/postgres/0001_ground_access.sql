
-- Access: tokens and their sessions. Of their secrets only digests are stored.
CREATE TABLE {schema}.token (
    id text PRIMARY KEY,
    digest text NOT NULL CHECK (length(digest) = 64),
    name text NOT NULL,
    role text NOT NULL CHECK (role IN ('viewer', 'creator', 'admin', 'super_admin')),
    created_at bigint NOT NULL,
    created_by text NOT NULL,
    expires_at bigint,
    revoked_at bigint,
    last_used_at bigint
);
CREATE TABLE {schema}.session (
    id text PRIMARY KEY,
    digest text NOT NULL CHECK (length(digest) = 64),
    token_id text NOT NULL,
    created_at bigint NOT NULL,
    expires_at bigint NOT NULL
);
-- Since when a caller needs a token: the first token sets it, and only an operator on the host clears it.
CREATE TABLE {schema}.access (
    one integer PRIMARY KEY DEFAULT 1 CHECK (one = 1),
    closed_at bigint
);
INSERT INTO {schema}.access DEFAULT VALUES;
CREATE INDEX session_token ON {schema}.session (token_id);
CREATE INDEX session_expiry ON {schema}.session (expires_at);
CREATE INDEX audit_actor ON {schema}.audit (actor, seq);
CREATE INDEX audit_target ON {schema}.audit (target, seq);

-- Webhooks: endpoints, deliveries, and the feed cursor.
CREATE INDEX job_detail_webhook ON {schema}.job_detail (id) WHERE webhook_url IS NOT NULL;
CREATE TABLE {schema}.webhook (
    id text PRIMARY KEY,
    url text NOT NULL,
    description text NOT NULL,
    kinds text NOT NULL,
    definitions text NOT NULL,
    enabled boolean NOT NULL,
    disabled_reason text,
    secret text NOT NULL,
    old_secret text,
    old_secret_until bigint,
    since bigint NOT NULL,
    created_at bigint NOT NULL,
    updated_at bigint NOT NULL,
    revision integer NOT NULL DEFAULT 1
);
-- Endpoints, and the hosts of other URLs: how well they are, and whose turn it is.
CREATE TABLE {schema}.receiver (
    key text PRIMARY KEY,
    failures integer NOT NULL DEFAULT 0,
    open_until bigint,
    last_success_at bigint,
    last_failure_at bigint,
    failing_since bigint,
    failing_tries integer NOT NULL DEFAULT 0,
    served_at bigint NOT NULL DEFAULT 0
);
CREATE TABLE {schema}.delivery (
    seq bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    id text NOT NULL UNIQUE,
    endpoint text NOT NULL,
    event_seq bigint NOT NULL,
    receiver text NOT NULL,
    url text NOT NULL,
    kind text NOT NULL,
    job_id uuid,
    body text NOT NULL,
    status text NOT NULL DEFAULT 'waiting' CHECK (status IN ('waiting', 'delivered', 'failed')),
    tries integer NOT NULL DEFAULT 0,
    earlier_tries integer NOT NULL DEFAULT 0,
    due_at bigint NOT NULL,
    owner text,
    created_at bigint NOT NULL,
    ended_at bigint,
    status_code integer,
    error text,
    UNIQUE (endpoint, event_seq),
    CONSTRAINT delivery_ended CHECK ((ended_at IS NOT NULL) = (status <> 'waiting')),
    CONSTRAINT delivery_owned CHECK (owner IS NULL OR status = 'waiting')
);
CREATE INDEX delivery_waiting ON {schema}.delivery (receiver, due_at, seq) WHERE status = 'waiting';
CREATE INDEX delivery_taken ON {schema}.delivery (receiver, due_at) WHERE status = 'waiting' AND owner IS NOT NULL;
CREATE INDEX delivery_due ON {schema}.delivery (due_at) WHERE status = 'waiting';
CREATE INDEX delivery_job ON {schema}.delivery (job_id, seq) WHERE job_id IS NOT NULL;
CREATE INDEX delivery_endpoint ON {schema}.delivery (endpoint, seq);
CREATE INDEX delivery_age ON {schema}.delivery (created_at);
CREATE TABLE {schema}.delivery_try (
    delivery bigint NOT NULL REFERENCES {schema}.delivery (seq) ON DELETE CASCADE,
    number integer NOT NULL,
    at bigint NOT NULL,
    duration bigint NOT NULL,
    status_code integer,
    error text,
    excerpt text,
    PRIMARY KEY (delivery, number)
);
CREATE TABLE {schema}.webhook_feed (
    one integer PRIMARY KEY DEFAULT 1 CHECK (one = 1),
    cursor text,
    moved_at bigint NOT NULL DEFAULT 0,
    since bigint NOT NULL DEFAULT 0
);
INSERT INTO {schema}.webhook_feed (one) VALUES (1);

-- Alerts: since when, and until when. At most one of each kind and subject is raised at a time.
CREATE TABLE {schema}.alert (
    seq bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    kind text NOT NULL,
    subject text NOT NULL,
    message text NOT NULL,
    severity text NOT NULL CHECK (severity IN ('warning', 'critical')),
    since bigint,
    raised_at bigint NOT NULL,
    cleared_at bigint
);
CREATE UNIQUE INDEX alert_standing ON {schema}.alert (kind, subject) WHERE cleared_at IS NULL;
CREATE INDEX alert_cleared ON {schema}.alert (cleared_at) WHERE cleared_at IS NOT NULL;
