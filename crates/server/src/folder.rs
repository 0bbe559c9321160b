//! Folders that nobody else may look into.

use std::io;
use std::path::Path;

/// Makes a folder, and those that it lies in, for this user alone. One that is there stays as it is: whoever made it
/// has decided.
pub(crate) fn create_private(path: &Path) -> io::Result<()> {
    let mut builder = std::fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(path)
}

#[cfg(test)]
mod tests {
    #[cfg(unix)]
    #[test]
    fn a_new_folder_is_for_its_user_alone_and_an_old_one_stays_as_it_is() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().unwrap();
        let mode = |path: &std::path::Path| path.metadata().unwrap().permissions().mode() & 0o777;
        let path = folder.path().join("a/data");
        super::create_private(&path).unwrap();
        assert_eq!((mode(&path), mode(path.parent().unwrap())), (0o700, 0o700));
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o750)).unwrap();
        super::create_private(&path).unwrap();
        assert_eq!(mode(&path), 0o750);
    }
}
