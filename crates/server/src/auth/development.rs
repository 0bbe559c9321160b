//! Development mode: nobody but the user who runs the server is let in without a credential.

use std::io::{self, Read as _, Write as _};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq as _;
use switchboard_core::hex;

use super::AuthSetupError;
use crate::config::Config;
use crate::{entropy, peer_user};

/// Who is let in, in development mode.
#[derive(Debug)]
pub(crate) struct Development {
    token: [u8; 32],
    path: PathBuf,
    /// Where the server listens; none before it does.
    listener: OnceLock<SocketAddr>,
}

impl Development {
    /// Reads the token, or makes one at the first start.
    pub(super) fn new(config: &Config) -> Result<Self, AuthSetupError> {
        let path = config.data_dir.join(TOKEN_FILE);
        let token =
            read_or_make(&path).map_err(|error| AuthSetupError::unreadable("data_dir", &path, &error))?;
        Ok(Self { token: digest(&token), path, listener: OnceLock::new() })
    }

    /// The file that holds the token.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Where connections come to, from now on.
    pub(crate) fn listens_on(&self, address: SocketAddr) {
        if self.listener.set(address).is_ok() && !peer_user::is_known(address.ip()) {
            tracing::warn!(
                token = %self.path.display(),
                "this system does not tell which user is behind a connection: clients have to show the token"
            );
        }
    }

    pub(super) fn is_own(&self, peer: SocketAddr) -> bool {
        self.listener.get().is_some_and(|local| peer_user::is_own(peer, *local))
    }

    pub(super) fn is_token(&self, credential: &str) -> bool {
        self.token.ct_eq(&digest(credential)).into()
    }
}

fn digest(token: &str) -> [u8; 32] {
    Sha256::digest(token.as_bytes()).into()
}

fn read_or_make(path: &Path) -> io::Result<String> {
    match std::fs::File::open(path) {
        Ok(file) => {
            let mut token = String::new();
            file.take(MAX_BYTES).read_to_string(&mut token)?;
            let token = token.trim();
            if token.len() < MIN_BYTES {
                return Err(io::Error::other("it holds no token: delete it, and a new one is made"));
            }
            Ok(token.to_owned())
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let token = format!("dev_{}", hex(&entropy::bytes()));
            if let Some(folder) = path.parent() {
                crate::folder::create_private(folder)?;
            }
            create_private(path)?.write_all(format!("{token}\n").as_bytes())?;
            Ok(token)
        }
        Err(error) => Err(error),
    }
}

/// A new file that nobody else may read.
fn create_private(path: &Path) -> io::Result<std::fs::File> {
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

/// The file in the data folder.
const TOKEN_FILE: &str = "development.token";
const MAX_BYTES: u64 = 256;
const MIN_BYTES: usize = 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_token_is_made_once_and_is_nobody_elses_to_read() {
        let folder = tempfile::tempdir().unwrap();
        let config = Config { data_dir: folder.path().join("new"), ..Config::default() };
        let first = Development::new(&config).unwrap();
        let text = std::fs::read_to_string(first.path()).unwrap();
        assert!(text.starts_with("dev_") && first.is_token(text.trim()) && !first.is_token("dev_"));
        assert_eq!(Development::new(&config).unwrap().token, first.token);
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt as _;
            assert_eq!(std::fs::metadata(first.path()).unwrap().permissions().mode() & 0o777, 0o600);
        }
        std::fs::write(first.path(), "short").unwrap();
        assert!(Development::new(&config).is_err());
    }
}
