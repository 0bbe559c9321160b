//! The durable log of sessions and its projections: memory and SQLite.
