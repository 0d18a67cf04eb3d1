"""The journal as the host of schema 7 made it, which is the oldest that is brought forward."""

from honeybadger_host.journal.schema import APPLICATION_ID

VERSION_7 = f"""
PRAGMA journal_mode = WAL;
CREATE TABLE meta (
    key TEXT PRIMARY KEY, value
) WITHOUT ROWID;
CREATE TABLE changes (
    seq INTEGER PRIMARY KEY,
    at INTEGER NOT NULL,
    grp TEXT NOT NULL, sender TEXT NOT NULL, request TEXT NOT NULL,
    kind TEXT NOT NULL,
    file TEXT NOT NULL,
    offset INTEGER NOT NULL,
    data BLOB NOT NULL
);
CREATE TABLE receipts (
    seq INTEGER PRIMARY KEY,
    at INTEGER NOT NULL,
    grp TEXT NOT NULL, sender TEXT NOT NULL, request TEXT NOT NULL,
    digest BLOB NOT NULL,
    reply BLOB NOT NULL,
    UNIQUE (grp, sender, request)
);
CREATE TABLE unsettled (
    file TEXT PRIMARY KEY,
    first_seq INTEGER NOT NULL
) WITHOUT ROWID;
CREATE TABLE turns (
    grp TEXT NOT NULL, sender TEXT NOT NULL, request TEXT NOT NULL,
    digest BLOB NOT NULL,
    seq INTEGER NOT NULL,
    attempts INTEGER NOT NULL,
    steps BLOB NOT NULL,
    PRIMARY KEY (grp, sender, request)
) WITHOUT ROWID;
CREATE TABLE spent (
    day TEXT NOT NULL, grp TEXT NOT NULL, kind TEXT NOT NULL,
    tokens INTEGER NOT NULL,
    PRIMARY KEY (day, grp, kind)
) WITHOUT ROWID;
CREATE TABLE edits (
    seq INTEGER PRIMARY KEY,
    at INTEGER NOT NULL,
    grp TEXT NOT NULL, author TEXT NOT NULL,
    event INTEGER NOT NULL,
    file TEXT NOT NULL,
    before BLOB, after BLOB,
    hunks BLOB
);
CREATE TABLE lines (
    hash BLOB PRIMARY KEY, text BLOB NOT NULL
) WITHOUT ROWID;
CREATE TABLE seen (
    file TEXT PRIMARY KEY,
    seq INTEGER NOT NULL,
    inode INTEGER NOT NULL, size INTEGER NOT NULL, mtime_ns INTEGER NOT NULL, ctime_ns INTEGER NOT NULL,
    length INTEGER NOT NULL, digest BLOB NOT NULL,
    text BLOB
) WITHOUT ROWID;
CREATE TABLE tasks (
    grp TEXT NOT NULL, task TEXT NOT NULL,
    seq INTEGER NOT NULL,
    PRIMARY KEY (grp, task)
) WITHOUT ROWID;
CREATE TABLE emptied (
    seq INTEGER PRIMARY KEY,
    digest BLOB NOT NULL
);
CREATE TABLE tombstones (
    grp TEXT NOT NULL, words INTEGER NOT NULL, digest BLOB NOT NULL,
    PRIMARY KEY (grp, words, digest)
) WITHOUT ROWID;
CREATE INDEX edits_of_file ON edits (file, seq);
INSERT INTO meta VALUES ('identity', '0123abcd'), ('settled_seq', 2);
PRAGMA user_version = 7;
PRAGMA application_id = {APPLICATION_ID};
"""
