//! The annals of a conversation: what its events become on the wire and in the tables.
