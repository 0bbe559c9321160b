//! How an MCP server is reached, and what of it is offered.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use reqwest::Url;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// One MCP server: a process that is started (`command`), or an address (`url`).
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct McpConfig {
    /// The program to start; it is spoken to over its standard input and output.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// The arguments of the program.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub args: Vec<String>,
    /// Environment variables of the program, with their values. It inherits nothing but `PATH`,
    /// `HOME`, `LANG` and `TMPDIR`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, String>,
    /// Names of environment variables that are handed through to the program; for secrets.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub env_from: Vec<String>,
    /// The folder that the program starts in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cwd: Option<PathBuf>,
    /// The address of a server that speaks streamable HTTP.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// The environment variable that holds the bearer token for `url`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bearer_env: Option<String>,
    /// What the names of its tools begin with; the name of the server and a dot, if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prefix: Option<String>,
    /// The tools that are offered, by the names that the server gives them; all of them, if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tools: Option<Vec<String>>,
    /// Tools whose every use a person has to confirm, by the names that the server gives them;
    /// those that the server calls destructive have to be confirmed anyway.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub confirm: Vec<String>,
    /// How long that person may take, in milliseconds; then the answer is no. Agents with a time of their own for
    /// this go by that.
    pub approval_timeout_ms: u64,
    /// How long a call may take at most, in milliseconds.
    pub call_timeout_ms: u64,
    /// How long the server may take to start and to list its tools, in milliseconds.
    pub start_timeout_ms: u64,
    /// The first pause before the server is started again, in milliseconds; it doubles each time.
    pub backoff_ms: u64,
    /// The longest pause before the server is started again, in milliseconds.
    pub max_backoff_ms: u64,
}

/// Why a server cannot be used as it is configured.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct McpConfigError(String);

/// How a server is reached.
#[derive(Clone, Copy, Debug)]
pub(super) enum Reach<'a> {
    Process(&'a str),
    Http(&'a str),
}

impl Default for McpConfig {
    fn default() -> Self {
        Self {
            command: None,
            args: Vec::new(),
            env: BTreeMap::new(),
            env_from: Vec::new(),
            cwd: None,
            url: None,
            bearer_env: None,
            prefix: None,
            tools: None,
            confirm: Vec::new(),
            approval_timeout_ms: 300_000,
            call_timeout_ms: 60_000,
            start_timeout_ms: 60_000,
            backoff_ms: 500,
            max_backoff_ms: 60_000,
        }
    }
}

impl McpConfig {
    /// Whether the configuration makes sense.
    ///
    /// # Errors
    /// It does not, and the error says why.
    pub fn check(&self) -> Result<(), McpConfigError> {
        self.reach().map(drop)
    }

    /// The environment variables that a server configured like this is given, or authenticated
    /// with; whoever starts servers has to know their values.
    pub fn env_names(&self) -> impl Iterator<Item = &str> {
        let inherited = self.command.as_ref().map(|_| INHERITED).unwrap_or_default();
        inherited.iter().copied().chain(self.env_from.iter().chain(&self.bearer_env).map(String::as_str))
    }

    pub(super) fn reach(&self) -> Result<Reach<'_>, McpConfigError> {
        let invalid = |problem: &str| Err(McpConfigError(problem.to_owned()));
        let times = [self.call_timeout_ms, self.start_timeout_ms, self.backoff_ms, self.max_backoff_ms];
        if times.contains(&0) {
            return invalid("`call_timeout_ms`, `start_timeout_ms` and both pauses have to be at least 1");
        }
        match (&self.command, &self.url) {
            (Some(_), Some(_)) | (None, None) => invalid("either `command` or `url` is needed"),
            (Some(_), None) if self.bearer_env.is_some() => invalid("`bearer_env` is for `url`"),
            (Some(command), None) if command.is_empty() => invalid("`command` is empty"),
            (Some(command), None) => {
                let unfit = |name: &String| name.is_empty() || name.contains(['=', '\0']);
                if self.env.keys().chain(&self.env_from).any(unfit) {
                    return invalid("`env` or `env_from` holds a name that no variable can have");
                }
                Ok(Reach::Process(command))
            }
            (None, Some(url)) => {
                let process = !self.args.is_empty()
                    || !self.env.is_empty()
                    || !self.env_from.is_empty()
                    || self.cwd.is_some();
                if process {
                    return invalid("`args`, `env`, `env_from` and `cwd` are for `command`");
                }
                match Url::parse(url) {
                    Err(error) => Err(McpConfigError(format!("`url`: {error}"))),
                    Ok(url) if !matches!(url.scheme(), "http" | "https") => {
                        invalid("`url` has to begin with http:// or https://")
                    }
                    Ok(url) if !url.username().is_empty() || url.password().is_some() => {
                        invalid("`url` must not hold credentials: use `bearer_env`")
                    }
                    Ok(_) => Ok(Reach::Http(url)),
                }
            }
        }
    }

    pub(super) fn prefix(&self, server: &str) -> String {
        self.prefix.clone().unwrap_or_else(|| format!("{server}."))
    }

    pub(super) fn start_timeout(&self) -> Duration {
        Duration::from_millis(self.start_timeout_ms)
    }

    /// The pause after so many failures in a row. Up to a quarter of it is taken off, depending on
    /// the name, so that many servers do not start at once.
    pub(super) fn pause(&self, server: &str, failures: u32) -> Duration {
        let doubled = self.backoff_ms.saturating_mul(1 << failures.saturating_sub(1).min(20));
        let longest = doubled.min(self.max_backoff_ms.max(self.backoff_ms));
        let digest = Sha256::digest(format!("{server}\0{failures}"));
        let spread = digest.first().copied().unwrap_or_default();
        Duration::from_millis(longest - longest / 4 * u64::from(spread) / 255)
    }
}

/// Values of environment variables are not shown: who writes secrets into `env` is not punished.
impl fmt::Debug for McpConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("McpConfig")
            .field("command", &self.command)
            .field("args", &self.args.len())
            .field("env", &self.env.keys())
            .field("env_from", &self.env_from)
            .field("url", &self.url)
            .field("bearer_env", &self.bearer_env)
            .field("prefix", &self.prefix)
            .field("tools", &self.tools)
            .field("confirm", &self.confirm)
            .finish_non_exhaustive()
    }
}

/// What every process needs, and nothing that is worth stealing.
pub(super) const INHERITED: &[&str] = &["PATH", "HOME", "LANG", "TMPDIR"];

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<McpConfig, String> {
        let config: McpConfig = toml::from_str(text).map_err(|error| error.to_string())?;
        config.check().map_err(|error| error.to_string())?;
        Ok(config)
    }

    #[test]
    fn a_server_is_a_command_or_an_address() {
        assert!(read("command = 'server'\nargs = ['-v']\nenv = { A = '1' }\nenv_from = ['B']").is_ok());
        assert!(read("url = 'http://localhost:8000/mcp'\nbearer_env = 'TOKEN'").is_ok());
        for wrong in [
            "",
            "command = ''",
            "command = 'server'\nurl = 'http://localhost'",
            "command = 'server'\nbearer_env = 'TOKEN'",
            "command = 'server'\nenv_from = ['A=B']",
            "command = 'server'\nbackoff_ms = 0",
            "command = 'server'\ncolour = 'red'",
            "url = 'ftp://localhost'",
            "url = 'http://me:secret@localhost'",
            "url = 'localhost'",
            "url = 'http://localhost'\nargs = ['-v']",
        ] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn variables_that_are_needed_are_named() {
        let process = read("command = 'server'\nenv_from = ['KEY']").unwrap();
        assert_eq!(process.env_names().collect::<Vec<_>>(), ["PATH", "HOME", "LANG", "TMPDIR", "KEY"]);
        let http = read("url = 'http://localhost'\nbearer_env = 'TOKEN'").unwrap();
        assert_eq!(http.env_names().collect::<Vec<_>>(), ["TOKEN"]);
    }

    #[test]
    fn values_of_variables_are_not_shown() {
        let config = read("command = 'server'\nargs = ['--key=hidden']\nenv = { KEY = 'hidden' }").unwrap();
        let shown = format!("{config:?}");
        assert!(shown.contains("KEY") && !shown.contains("hidden"), "{shown}");
    }

    #[test]
    fn pauses_double_up_to_a_bound() {
        let config = McpConfig { backoff_ms: 100, max_backoff_ms: 1000, ..McpConfig::default() };
        for (failures, longest) in [(1, 100), (2, 200), (3, 400), (4, 800), (5, 1000), (u32::MAX, 1000)] {
            let pause = config.pause("files", failures).as_millis();
            assert!((longest * 3 / 4..=longest).contains(&pause), "{failures}: {pause}");
        }
        let all: Vec<_> = ["a", "b", "c", "d"].iter().map(|name| config.pause(name, 9)).collect();
        assert!(all.iter().any(|pause| pause != &all[0]), "{all:?}");
    }
}
