//! Functions of the server: what actions with `executor: "server"` run.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use serde_json::{Value, json};
use switchboard_core::Pii;
use switchboard_vip::errand::{Failed, Performed};

use super::config::FunctionConfig;
use super::http::{Lost, Place, is_header_value};
use super::{failed, setup_error};
use crate::auth::AuthSetupError;
use crate::config::Secrets;

/// The functions that are configured.
#[derive(Debug)]
pub struct Functions {
    functions: BTreeMap<String, Function>,
}

#[derive(Debug)]
struct Function {
    place: Place,
    token: Option<Pii<String>>,
    max_answer_bytes: usize,
}

/// One call of a function.
#[derive(Clone, Copy)]
pub struct Call<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its parameters, already checked.
    pub parameters: &'a Value,
    /// The session.
    pub session: &'a str,
    /// The user, as the application names it.
    pub sub: Option<&'a str>,
}

impl fmt::Debug for Call<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Call").field("name", &self.name).finish_non_exhaustive()
    }
}

impl Functions {
    /// Reads tokens as configured.
    ///
    /// # Errors
    /// The configuration contradicts itself.
    pub fn open(functions: &[FunctionConfig], secrets: &Secrets) -> Result<Self, AuthSetupError> {
        let mut known = BTreeMap::new();
        for (index, config) in functions.iter().enumerate() {
            let at = |name: &str| format!("vip.functions[{index}].{name}");
            if config.name.is_empty() {
                return Err(setup_error(at("name"), "is required"));
            }
            let token = match &config.token_env {
                None => None,
                Some(name) => {
                    let token =
                        secrets.find(name).filter(|token| is_header_value(token)).ok_or_else(|| {
                            setup_error(
                                at("token_env"),
                                format!("the environment variable {name} holds no token"),
                            )
                        })?;
                    Some(Pii(token.to_owned()))
                }
            };
            let place = Place::new(&at("url"), &config.url, Duration::from_millis(config.timeout_ms))?;
            let function = Function { place, token, max_answer_bytes: config.max_answer_bytes };
            if known.insert(config.name.clone(), function).is_some() {
                return Err(setup_error(at("name"), "is used twice"));
            }
        }
        Ok(Self { functions: known })
    }

    /// Whether there is a function of this name.
    pub fn contains(&self, name: &str) -> bool {
        self.functions.contains_key(name)
    }

    /// Runs a function, once.
    ///
    /// # Errors
    /// It has no result; the code says why.
    pub async fn perform(&self, call: Call<'_>) -> Result<Performed, Failed> {
        let function = self
            .functions
            .get(call.name)
            .ok_or_else(|| failed("ACT_NOT_FOUND", "the server has no such function"))?;
        let mut body = json!({"name": call.name, "parameters": call.parameters, "session": call.session});
        if let Some(sub) = call.sub {
            body["sub"] = json!(sub);
        }
        let token = function.token.as_ref().map(|token| token.0.as_str());
        let answer = function.place.post(token, &body, function.max_answer_bytes).await;
        let result = answer.map_err(|lost| match lost {
            Lost::TimedOut => failed("ACT_TIMEOUT", "the function took too long"),
            Lost::Unreachable => failed("ACT_EXECUTION_FAILED", "the function cannot be reached"),
            Lost::TooLong => failed("ACT_EXECUTION_FAILED", "the function's result is too long"),
        });
        let result = result.and_then(|answer| {
            if !answer.is_success() {
                let message = format!("the function failed (HTTP {})", answer.status);
                return Err(failed("ACT_EXECUTION_FAILED", message));
            }
            if answer.body.trim_ascii().is_empty() {
                return Ok(Performed { data: Value::Null });
            }
            serde_json::from_slice(&answer.body)
                .map(|data| Performed { data })
                .map_err(|_| failed("ACT_EXECUTION_FAILED", "the function's result is no JSON"))
        });
        result.inspect_err(|refused| {
            tracing::warn!(code = refused.failed, function = call.name, "a function has no result");
        })
    }
}
