//! `switchboard keys`: credentials for the configuration, and those that a server no longer takes.

use switchboard_client::admin::Subject;
use switchboard_core::{Scopes, hex};
use switchboard_server::auth::hash_key;

use crate::console::{Console, harmless};
use crate::environment::Environment;
use crate::failure::Failure;
use crate::remote::RemoteArgs;
use crate::sessions::table::Table;
use crate::sessions::to_json;

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
    /// List the API keys of a server, and which of them are revoked
    #[command(after_help = "Example:\n  switchboard keys list\n\nNeeds a credential with the scope admin.")]
    List(ListArgs),
    /// Revoke a key, a token or a principal: at once, for good, and for connections that are open
    #[command(after_help = "\
Examples:
  switchboard keys revoke laptop                  the API key of this id
  switchboard keys revoke --principal alice       every credential of hers
  switchboard keys revoke --token 8f14e45f        the token with this jti

Needs a credential with the scope admin. `keys restore` takes it back.")]
    Revoke(SubjectArgs),
    /// Take a revocation back
    #[command(
        after_help = "Example:\n  switchboard keys restore laptop\n\nNeeds a credential with the scope admin."
    )]
    Restore(SubjectArgs),
}

/// Arguments of `keys list`.
#[derive(Debug, clap::Args)]
pub(crate) struct ListArgs {
    /// One JSON object per key and line
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    remote: RemoteArgs,
}

/// Arguments of `keys revoke` and `keys restore`.
#[derive(Debug, clap::Args)]
pub(crate) struct SubjectArgs {
    /// The id of an API key
    #[arg(required_unless_present_any = ["principal", "token"])]
    id: Option<String>,
    /// Every credential of this principal
    #[arg(long, value_name = "PRINCIPAL", conflicts_with_all = ["id", "token"])]
    principal: Option<String>,
    /// The token with this `jti`
    #[arg(long, value_name = "JTI", conflicts_with = "id")]
    token: Option<String>,
    #[command(flatten)]
    remote: RemoteArgs,
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
    /// What it allows: connect, read, invoke, tools, approve, manage, dispatch, admin, agent:NAME,
    /// device:NAME, constellation:NAME, target:NAME, mcp:SERVER; all but admin unless given
    #[arg(long, value_delimiter = ',', value_name = "SCOPE")]
    scopes: Vec<String>,
}

/// Runs `keys`.
pub(crate) async fn run(
    command: Command,
    environment: &Environment,
    console: &Console,
) -> Result<(), Failure> {
    match command {
        Command::New(args) => {
            if let Some(word) = args.scopes.iter().find(|word| !Scopes::knows(word)) {
                return Err(Failure::usage(format!("{word} is no scope: see `switchboard keys new --help`")));
            }
            let key = fresh()?;
            console.note(&format!("the key, shown this once: {key}"));
            console.print(&entry(&args, &key))
        }
        Command::List(args) => list(&args, environment, console).await,
        Command::Revoke(args) => {
            let remote = args.remote.remote(environment)?;
            let asked = remote.admin()?.revoke(&args.subject()).await;
            asked.map_err(|error| remote.refused(&error))?;
            console.line("revoked; its connections end")
        }
        Command::Restore(args) => {
            let remote = args.remote.remote(environment)?;
            let asked = remote.admin()?.restore(&args.subject()).await;
            asked.map_err(|error| remote.refused(&error))?;
            console.line("restored")
        }
    }
}

async fn list(args: &ListArgs, environment: &Environment, console: &Console) -> Result<(), Failure> {
    let remote = args.remote.remote(environment)?;
    let keys = remote.admin()?.keys().await.map_err(|error| remote.refused(&error))?;
    if args.json {
        for key in &keys {
            console.line(&to_json(key)?)?;
        }
        return Ok(());
    }
    let mut table = Table::new(["ID", "PRINCIPAL", "STATE"]);
    for key in &keys {
        let state = if key.revoked { "revoked" } else { "valid" };
        table.row([harmless(&key.id), harmless(&key.principal), state.to_owned()]);
    }
    console.print(&table.text(console.palette()))
}

impl SubjectArgs {
    fn subject(&self) -> Subject {
        match (&self.principal, &self.token) {
            (Some(principal), _) => Subject::Principal(principal.clone()),
            (None, Some(jti)) => Subject::Token(jti.clone()),
            (None, None) => Subject::Key(self.id.clone().unwrap_or_default()),
        }
    }
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
