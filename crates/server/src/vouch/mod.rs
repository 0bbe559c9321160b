//! What VIP has done outside of every session: users are vouched for, credentials made, functions run.
//!
//! * [`Vouching`] turns the App Token of an application into a principal. Each issuer is registered with its
//!   algorithms and keys; a token counts once.
//! * [`Keys`] signs the tokens of this server, and knows them again.
//! * [`Providers`] makes credentials with which clients talk to a provider by themselves.
//! * [`Functions`] runs what actions leave to the server.
//!
//! No token, key or content is ever logged or formatted; reasons of refusal are, at `debug`.

mod config;
mod files;
mod http;
mod issuers;
mod jwks;
mod perform;
mod providers;
mod replay;
mod seal;
#[cfg(test)]
mod tests;
mod token;

pub use config::{
    AppAlgorithm, DevelopmentConfig, FunctionConfig, IssuerConfig, ProviderAdapter, ProviderConfig,
    ProviderTransport,
};
pub use issuers::Vouching;
pub use perform::{Call, Functions};
pub use providers::{Order, Providers};
pub use seal::Keys;

use switchboard_vip::errand::Failed;

use crate::auth::AuthSetupError;

fn setup_error(key: impl Into<String>, problem: impl Into<String>) -> AuthSetupError {
    AuthSetupError { key: key.into(), problem: problem.into() }
}

fn failed(code: &str, message: impl Into<String>) -> Failed {
    Failed { failed: code.to_owned(), message: message.into() }
}
