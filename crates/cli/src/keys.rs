//! `switchboard keys`: credentials for the configuration.

use switchboard_core::hex;
use switchboard_server::auth::hash_key;

use crate::console::Console;
use crate::failure::Failure;

/// What to do with keys.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// Make an API key, and print what the configuration has to say about it
    #[command(after_help = "\
Example:
  switchboard keys new --id laptop --principal alice >> switchboard.toml

The key itself is shown once, on the error stream, and is stored nowhere: give it to the client,
in the variable SWITCHBOARD_TOKEN or in a file. What goes to the output holds its hash only.")]
    New(NewArgs),
}

/// Arguments of `keys new`.
#[derive(Debug, clap::Args)]
pub(crate) struct NewArgs {
    /// A name for the key, used to revoke it
    #[arg(long, default_value = "key")]
    id: String,
    /// Whom the key stands for
    #[arg(long, default_value = "me")]
    principal: String,
    /// What it allows: connect, invoke, tools, admin, agent:NAME; all but admin unless given
    #[arg(long, value_delimiter = ',', value_name = "SCOPE")]
    scopes: Vec<String>,
}

/// Runs `keys`.
pub(crate) fn run(command: Command, console: &Console) -> Result<(), Failure> {
    let Command::New(args) = command;
    let key = fresh()?;
    console.note(&format!("the key, shown this once: {key}"));
    console.print(&entry(&args, &key))
}

/// The lines of the configuration that make the server know the key.
fn entry(args: &NewArgs, key: &str) -> String {
    let NewArgs { id, principal, scopes } = args;
    let mut text = format!(
        "\n[[auth.api_keys]]\nid = {}\nprincipal = {}\nhash = \"{}\"\n",
        quoted(id),
        quoted(principal),
        hash_key(key)
    );
    if !scopes.is_empty() {
        let scopes: Vec<String> = scopes.iter().map(|scope| quoted(scope)).collect();
        text += &format!("scopes = [{}]\n", scopes.join(", "));
    }
    text
}

/// 256 random bits.
fn fresh() -> Result<String, Failure> {
    let mut bytes = [0_u8; 32];
    getrandom::fill(&mut bytes)
        .map_err(|error| Failure::failed(format!("the system gives no random numbers: {error}")))?;
    let digits = hex(&bytes);
    Ok(format!("sk_{digits}"))
}

/// A basic string of TOML, which is one of JSON too.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_entry_holds_the_hash_and_not_the_key() {
        let args = NewArgs {
            id: "a \"b\"".into(),
            principal: "alice".into(),
            scopes: vec!["connect".into(), "admin".into()],
        };
        let key = fresh().unwrap();
        let text = entry(&args, &key);
        assert!(!text.contains(&key));
        assert!(text.contains(&hash_key(&key)));
        assert!(text.contains("id = \"a \\\"b\\\"\"\n"), "{text}");
        assert!(text.ends_with("scopes = [\"connect\", \"admin\"]\n"), "{text}");
        assert_ne!(key, fresh().unwrap());
    }
}
