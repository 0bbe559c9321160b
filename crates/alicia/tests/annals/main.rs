//! What the events of real sessions become in the annals.

mod answers;
mod deeds;
mod messages;
mod properties;
mod support;
mod tools;
