//! Where clients may let agents work: folders of this machine.

use std::path::{Path, PathBuf};

/// Which folders a client may name.
#[derive(Clone, Debug)]
pub(crate) enum Workspaces {
    /// Any: everybody who connects is at home on this machine.
    Any,
    /// Only these, and what lies within them.
    Within(Vec<PathBuf>),
}

impl Workspaces {
    /// Whether an agent may work there; otherwise what to say. A folder that may not be named and
    /// one that is not there look the same, and where none may be named, nothing is said of any.
    pub(crate) async fn check(&self, named: &str) -> Result<(), String> {
        if matches!(self, Self::Within(roots) if roots.is_empty()) {
            return Err("No workspaces are served here".to_owned());
        }
        let absent = || format!("Workspace path does not exist: {named}");
        let folder = tokio::fs::canonicalize(Path::new(named)).await.map_err(|_| absent())?;
        if let Self::Within(roots) = self {
            let mut within = false;
            for root in roots {
                within |= tokio::fs::canonicalize(root).await.is_ok_and(|root| folder.starts_with(root));
            }
            if !within {
                return Err(absent());
            }
        }
        match tokio::fs::metadata(&folder).await {
            Ok(found) if found.is_dir() => Ok(()),
            Ok(_) => Err(format!("Workspace path is not a directory: {named}")),
            Err(_) => Err(absent()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_workspace_is_a_folder_that_is_there() {
        let root = tempfile::tempdir().unwrap();
        let file = root.path().join("file");
        std::fs::write(&file, "").unwrap();
        let named = |path: &Path| path.to_str().unwrap().to_owned();
        assert_eq!(Workspaces::Any.check(&named(root.path())).await, Ok(()));
        let gone = named(&root.path().join("gone"));
        let absent = Err(format!("Workspace path does not exist: {gone}"));
        assert_eq!(Workspaces::Any.check(&gone).await, absent);
        let file = named(&file);
        let no_folder = Err(format!("Workspace path is not a directory: {file}"));
        assert_eq!(Workspaces::Any.check(&file).await, no_folder);
    }

    #[tokio::test]
    async fn outside_the_roots_nothing_is_to_be_found() {
        let (root, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let inner = root.path().join("inner");
        std::fs::create_dir(&inner).unwrap();
        let workspaces = Workspaces::Within(vec![root.path().to_owned()]);
        let check = async |path: &Path| workspaces.check(path.to_str().unwrap()).await;
        assert_eq!(check(&inner).await, Ok(()));
        for outside in [other.path().to_owned(), root.path().join("..")] {
            let absent = Err(format!("Workspace path does not exist: {}", outside.display()));
            assert_eq!(check(&outside).await, absent);
        }
        let none = Workspaces::Within(Vec::new());
        for path in [inner.as_path(), Path::new("/nope")] {
            assert_eq!(none.check(path.to_str().unwrap()).await, Err("No workspaces are served here".into()));
        }
    }
}
