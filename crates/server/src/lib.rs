//! The Switchboard server: one driver for every protocol, session actors over a durable log, and
//! what surrounds them: configuration, credentials, limits, operations.
//!
//! ```text
//! socket ─▶ upgrade ─▶ driver ─▶ gateway ─▶ sessions ─▶ log
//!              ▲         ▲ ▲  └─▶ voices, errands │
//!           protocol     │ feed ◀─────────────────┘ ─▶ host ─▶ agents
//!                       peer (WebRTC)
//! ```

pub mod admin;
mod agents;
mod audit;
pub mod auth;
#[cfg(test)]
mod captured;
mod clock;
pub mod config;
mod courtesy;
mod demo;
mod doorstep;
mod driver;
mod entropy;
mod errands;
mod folder;
mod gateway;
#[cfg(test)]
mod guest_tests;
mod guests;
mod handle;
mod host;
pub mod limits;
mod listener;
mod memory;
mod meters;
pub mod origin;
mod peer_user;
mod places;
mod protocols;
mod quotas;
mod registry;
mod relay;
mod routes;
mod schema;
mod secrets;
mod serve;
mod sessions;
mod slots;
mod speech;
pub mod telemetry;
pub mod tls;
mod transport;
mod unfinished;
mod upgrade;
mod vip;
mod visitor;
mod voices;
pub mod vouch;
mod workspace;

pub use config::Config;
pub use guests::Guests;
pub use handle::Handle;
pub use listener::listen;
pub use protocols::chroniclers;
pub use serve::{ServeError, Server};
