//! Functions of the server, as far as the app has declared them.

use serde_json::{Value, json};

use crate::action;
use crate::context::{Context, Executor};
use crate::error::{Code, Fault};

/// The complete parameters of a function that the app has declared with `executor: "server"`.
pub(crate) fn check(context: &Context, name: &str, parameters: &Value) -> Result<Value, Fault> {
    let none = json!({});
    let parameters = if parameters.is_null() { &none } else { parameters };
    let prepared = action::check(context, name, parameters)?;
    // Nobody can be asked on this way.
    if prepared.sensitive {
        return Err(Fault::new(Code::ActConfirmationRequired));
    }
    match prepared.executor {
        Executor::Server => Ok(prepared.parameters),
        Executor::Client => Err(Fault::new(Code::ActNotFound)),
    }
}
