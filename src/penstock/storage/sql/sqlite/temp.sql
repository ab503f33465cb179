-- Private tables of each connection: the jobs that a statement works on, between its steps.
CREATE TABLE IF NOT EXISTS temp.taken (position INTEGER PRIMARY KEY, id TEXT NOT NULL, lane INTEGER);
CREATE TABLE IF NOT EXISTS temp.forgotten (id TEXT NOT NULL, fence INTEGER NOT NULL, started_at INTEGER, ended_at INTEGER, PRIMARY KEY (id, fence)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS temp.ahead (name TEXT PRIMARY KEY, lead INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS temp.in_claim (lane INTEGER PRIMARY KEY, quota, granted, paid, after_rank, after_id);
CREATE TABLE IF NOT EXISTS temp.claimed (
    position INTEGER PRIMARY KEY, id TEXT NOT NULL, lane INTEGER NOT NULL, fence INTEGER, attempt INTEGER, max_attempts INTEGER,
    lost INTEGER, rank INTEGER, limit_key TEXT, waited INTEGER
);
CREATE TABLE IF NOT EXISTS temp.ended (
    position INTEGER PRIMARY KEY, id TEXT NOT NULL, lane INTEGER NOT NULL, status INTEGER, number INTEGER, started_at INTEGER,
    limit_key TEXT, ran INTEGER
);
