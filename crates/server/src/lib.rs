//! The Switchboard server: one driver for every protocol, session actors over a durable log, and
//! what surrounds them: configuration, credentials, limits, operations.
//!
//! ```text
//! socket ─▶ upgrade ─▶ driver ─▶ gateway ─▶ sessions ─▶ log
//!              ▲          ▲                    │
//!           protocol    feed ◀─────────────────┘ ─▶ host ─▶ agents
//! ```

pub mod admin;
mod agents;
pub mod auth;
mod clock;
pub mod config;
mod driver;
mod entropy;
mod feed;
mod gateway;
mod handle;
mod host;
pub mod limits;
mod listener;
mod memory;
mod meters;
pub mod origin;
mod outbox;
mod port;
mod protocols;
mod registry;
mod relay;
mod routes;
mod schema;
mod serve;
mod sessions;
mod speech;
pub mod telemetry;
pub mod tls;
mod transport;
mod upgrade;
mod workspace;

pub use config::Config;
pub use handle::Handle;
pub use listener::listen;
pub use serve::{ServeError, Server};
