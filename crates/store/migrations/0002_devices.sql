-- Devices, connected or not: one row per name and principal, derived from the log like the others.
CREATE TABLE devices (
    id          INTEGER PRIMARY KEY,
    device      TEXT NOT NULL,
    principal   TEXT NOT NULL,
    session     TEXT NOT NULL,
    protocol    TEXT NOT NULL,
    platform    TEXT NOT NULL,
    facts       BLOB NOT NULL,
    profile     BLOB NOT NULL,
    joined_at   INTEGER NOT NULL,
    reported_at INTEGER NOT NULL,
    left_at     INTEGER
) STRICT;
CREATE UNIQUE INDEX devices_by_name ON devices (device, principal);
CREATE INDEX devices_by_principal ON devices (principal, device);
CREATE INDEX devices_online ON devices (device, principal) WHERE left_at IS NULL;
