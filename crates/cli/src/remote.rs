//! The server that a command talks to, and the credential it shows there.

use std::path::PathBuf;

use switchboard_client::admin::{Admin, AdminError, Page, SessionsQuery};
use switchboard_client::{Cause, Connect, ConnectError, Fault, Refusal, Trust, alicia, vip};
use switchboard_core::{SessionId, SessionRow};

use crate::environment::Environment;
use crate::failure::Failure;

/// Arguments of every command that talks to a server.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Server")]
pub(crate) struct RemoteArgs {
    /// Where the server is: ws, wss, http or https
    #[arg(long, visible_alias = "server", env = "SWITCHBOARD_URL", default_value = "ws://127.0.0.1:4600")]
    url: String,
    /// The environment variable that holds the token; SWITCHBOARD_TOKEN unless given
    #[arg(long, value_name = "VARIABLE", conflicts_with = "token_file")]
    token_env: Option<String>,
    /// The file that holds the token
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// A PEM file with the certificate authorities to trust instead of the system's
    #[arg(long, value_name = "FILE")]
    ca_file: Option<PathBuf>,
}

impl RemoteArgs {
    /// The variable that holds the token, if one is named.
    pub(crate) fn token_variable(&self) -> Option<&str> {
        self.token_env.as_deref()
    }

    /// Reads what the arguments name.
    pub(crate) fn remote(&self, environment: &Environment) -> Result<Remote, Failure> {
        let token = match (&self.token_env, &self.token_file) {
            (Some(variable), _) => Some(environment.find(variable).map(str::to_owned).ok_or_else(|| {
                Failure::usage(format!("the environment variable {variable} is not set, or empty"))
            })?),
            (None, Some(path)) => {
                let text = std::fs::read_to_string(path).map_err(|error| {
                    Failure::usage(format!("the token in {} cannot be read: {error}", path.display()))
                })?;
                let token = text.trim();
                if token.is_empty() {
                    return Err(Failure::usage(format!("{} holds no token", path.display())));
                }
                Some(token.to_owned())
            }
            (None, None) => environment.find(TOKEN_VARIABLE).map(str::to_owned),
        };
        let trust = match &self.ca_file {
            None => Trust::System,
            Some(path) => Trust::Only(std::fs::read(path).map_err(|error| {
                Failure::usage(format!("the certificates in {} cannot be read: {error}", path.display()))
            })?),
        };
        Ok(Remote { url: self.url.clone(), token, trust })
    }
}

/// A server, and how to get in.
#[derive(Clone)]
pub(crate) struct Remote {
    /// Where it is.
    pub(crate) url: String,
    token: Option<String>,
    trust: Trust,
}

impl Remote {
    /// How to connect, over whatever protocol.
    pub(crate) fn connect<C: Default>(&self) -> Connect<C> {
        let connect = Connect::new(&self.url).trust(self.trust.clone());
        match &self.token {
            Some(token) => connect.token(token),
            None => connect,
        }
    }

    /// How to connect over Alicia.
    pub(crate) fn alicia(&self) -> alicia::Connect {
        self.connect().config(alicia::ClientConfig {
            version: Some(env!("CARGO_PKG_VERSION").to_owned()),
            device: Some("terminal".to_owned()),
            ..alicia::ClientConfig::default()
        })
    }

    /// How to connect over VIP. What the App Token says of app and environment counts.
    pub(crate) fn vip(&self) -> Result<vip::Connect, Failure> {
        let (app, development) = match &self.token {
            Some(token) => crate::vip::app_of(token)?,
            None => ("terminal".to_owned(), true),
        };
        let connect: vip::Connect = self.connect();
        let connect = connect.app(app).silent();
        Ok(if development { connect.development() } else { connect })
    }

    /// A client of the admin API.
    pub(crate) fn admin(&self) -> Result<Admin, Failure> {
        Admin::new(&self.url, self.token.as_deref(), &self.trust).map_err(|error| self.refused(&error))
    }

    /// So many entries of a list that comes in pages, and whether there are more. `fetch` is given where
    /// a page begins and how many entries it may have.
    pub(crate) async fn entries<T>(
        &self,
        limit: usize,
        mut fetch: impl AsyncFnMut(Option<String>, usize) -> Result<Page<T>, AdminError>,
    ) -> Result<(Vec<T>, bool), Failure> {
        let (mut entries, mut next, mut more) = (Vec::new(), None, false);
        while entries.len() < limit {
            let page = fetch(next.take(), limit - entries.len()).await;
            let page = page.map_err(|error| self.refused(&error))?;
            entries.extend(page.items);
            more = page.next.is_some();
            match page.next {
                Some(cursor) => next = Some(cursor),
                None => break,
            }
        }
        Ok((entries, more))
    }

    /// The session with this id, or that its owner calls so.
    pub(crate) async fn session(&self, admin: &Admin, name: &str) -> Result<SessionRow, Failure> {
        match admin.session(&SessionId::from(name)).await {
            Ok(row) => return Ok(row),
            Err(AdminError::NotFound(_)) => {}
            Err(error) => return Err(self.refused(&error)),
        }
        let rows = named(admin, name).await.map_err(|error| self.refused(&error))?;
        match rows.as_slice() {
            [row] => Ok(row.clone()),
            [] => Err(Failure::failed(format!(
                "there is no session {name} that you may see; `switchboard sessions list --all` lists them"
            ))),
            several => {
                let ids: Vec<&str> = several.iter().map(|row| row.session.as_str()).collect();
                let ids = ids.join(", ");
                Err(Failure::usage(format!("several sessions are called {name}; name one by its id: {ids}")))
            }
        }
    }

    /// Why the admin API did not answer, and what to do.
    pub(crate) fn refused(&self, error: &AdminError) -> Failure {
        let url = &self.url;
        match error {
            AdminError::Url(_) | AdminError::Plaintext | AdminError::Tls(_) => {
                Failure::usage(error.to_string())
            }
            AdminError::Unreachable(why) => self.unreachable(why),
            AdminError::Unauthorized(why) => Failure::unreachable(format!("{url}: {why}; {GIVE_A_TOKEN}")),
            AdminError::Forbidden(why) => Failure::unreachable(format!("{url}: {why}")),
            AdminError::NotFound(_)
            | AdminError::Gone(_)
            | AdminError::Refused { .. }
            | AdminError::Answer(_) => Failure::failed(format!("{url}: {error}")),
        }
    }

    /// Why there is no connection, and what to do.
    pub(crate) fn disconnected<F: Fault>(&self, error: &ConnectError<F>) -> Failure {
        match error {
            ConnectError::Options(options) => Failure::usage(options.to_string()),
            ConnectError::Failed(cause) => self.failed(cause),
            ConnectError::ClientClosed => Failure::unreachable(format!("{}: {error}", self.url)),
        }
    }

    /// Why a request over HTTP was not answered, and what to do.
    pub(crate) fn refused_alicia(&self, error: &alicia::LibraryError) -> Failure {
        match error {
            alicia::LibraryError::Failed(cause) => self.failed(cause),
            alicia::LibraryError::Unusable(_) => Failure::failed(format!("{}: {error}", self.url)),
        }
    }

    fn failed<F: Fault>(&self, cause: &Cause<F>) -> Failure {
        let url = &self.url;
        let code = if let Cause::Refused(Refusal { code: Some(code), .. }) = cause {
            format!(" ({code})")
        } else {
            String::new()
        };
        match cause {
            Cause::Unreachable(why) => self.unreachable(why),
            Cause::Refused(Refusal { status: 401, .. }) => {
                Failure::unreachable(format!("{url}: {cause}{code}; {GIVE_A_TOKEN}"))
            }
            Cause::Refused(_) | Cause::Closed(_) | Cause::Silent | Cause::Left | Cause::Protocol(_) => {
                Failure::unreachable(format!("{url}: {cause}{code}; {}", cause.advice()))
            }
        }
    }

    fn unreachable(&self, why: &str) -> Failure {
        Failure::unreachable(format!(
            "there is no server at {}: {why}\nstart one with `switchboard serve`, or name another with --url",
            self.url
        ))
    }
}

/// Shows neither the token nor what is trusted.
impl std::fmt::Debug for Remote {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Remote").field("url", &self.url).finish_non_exhaustive()
    }
}

/// The sessions that their owners call `name`, the last used first.
pub(crate) async fn named(admin: &Admin, name: &str) -> Result<Vec<SessionRow>, AdminError> {
    let mut rows = Vec::new();
    let mut query = SessionsQuery { limit: Some(1_000), ..SessionsQuery::default() };
    for _ in 0..MAX_PAGES {
        let page = admin.sessions(&query).await?;
        rows.extend(page.items.into_iter().filter(|row| row.name.as_deref() == Some(name)));
        match page.next {
            Some(cursor) => query.cursor = Some(cursor),
            None => break,
        }
    }
    Ok(rows)
}

const TOKEN_VARIABLE: &str = "SWITCHBOARD_TOKEN";
const GIVE_A_TOKEN: &str =
    "give a valid token in the variable SWITCHBOARD_TOKEN, or with --token-env or --token-file";
/// A name is looked for among so many thousands of sessions; beyond that an id is needed.
const MAX_PAGES: usize = 20;
