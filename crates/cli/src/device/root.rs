//! The folder beyond which a device shows and changes nothing.
//!
//! A path is followed through all its links first, and then opened in a way that follows none: what
//! somebody puts in between cannot lead out either.

use std::fs::{File, Metadata};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Component, Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::{OFlag, OpenHow, ResolveFlag, openat2};
use nix::sys::stat::Mode;
use switchboard_client::aip::ToolFailure;

/// An open folder.
#[derive(Debug)]
pub(super) struct Root {
    path: PathBuf,
    folder: File,
}

/// What to do with a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Access {
    Read,
    /// Made if it is not there, emptied if it is.
    Replace,
    /// Made if it is not there.
    Append,
}

impl Root {
    /// This folder, wherever links lead.
    pub(super) fn new(path: &Path) -> io::Result<Self> {
        let path = path.canonicalize()?;
        let folder = std::fs::OpenOptions::new()
            .read(true)
            .custom_flags((OFlag::O_DIRECTORY | OFlag::O_CLOEXEC).bits())
            .open(&path)?;
        Ok(Self { path, folder })
    }

    /// Whether it is this folder, or one that it lies in.
    pub(super) fn shares(&self, folder: &str) -> bool {
        Path::new(folder).canonicalize().is_ok_and(|folder| folder.starts_with(&self.path))
    }

    /// Where it is.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Opens a file or folder; also answers where it is, seen from the root.
    pub(super) fn open(&self, wanted: &str, access: Access) -> Result<(File, PathBuf), ToolFailure> {
        let place = self.locate(wanted, access)?;
        let failed = |error: io::Error| ToolFailure::new(format!("{wanted}: {}", plain(&error)));
        let file = self.open_place(&place, access).map_err(failed)?;
        Ok((file, place))
    }

    /// A folder within, in which something may be run.
    pub(super) fn folder(&self, wanted: &str) -> Result<PathBuf, ToolFailure> {
        let (file, place) = self.open(wanted, Access::Read)?;
        if !file.metadata().is_ok_and(|metadata| metadata.is_dir()) {
            return Err(ToolFailure::new(format!("{wanted}: not a folder")));
        }
        Ok(self.path.join(place))
    }

    /// The way from the root, without links.
    fn locate(&self, wanted: &str, access: Access) -> Result<PathBuf, ToolFailure> {
        if wanted.contains('\0') {
            return Err(ToolFailure::new("a path holds no zero bytes"));
        }
        let path = self.path.join(wanted);
        let real = match path.canonicalize() {
            Err(error) if error.kind() == io::ErrorKind::NotFound && access != Access::Read => {
                // The file may be made, its folder has to be there.
                match (path.parent(), path.file_name()) {
                    (Some(folder), Some(name)) => folder.canonicalize().map(|folder| folder.join(name)),
                    (_, _) => Err(error),
                }
            }
            found => found,
        };
        // Whether there is anything outside is not told either.
        let outside = || ToolFailure::new(format!("{wanted}: outside of the folder that this device shares"));
        match real {
            Ok(real) => real.strip_prefix(&self.path).map(Path::to_owned).map_err(|_| outside()),
            Err(_) if !self.holds(&path) => Err(outside()),
            Err(error) => Err(ToolFailure::new(format!("{wanted}: {}", plain(&error)))),
        }
    }

    /// Whether a path stays within, as far as one can see from its letters.
    fn holds(&self, path: &Path) -> bool {
        let mut folded = PathBuf::new();
        for part in path.components() {
            match part {
                Component::ParentDir => {
                    folded.pop();
                }
                Component::CurDir => {}
                Component::Prefix(_) | Component::RootDir | Component::Normal(_) => folded.push(part),
            }
        }
        folded.starts_with(&self.path)
    }

    fn open_place(&self, place: &Path, access: Access) -> io::Result<File> {
        let place = if place.as_os_str().is_empty() { Path::new(".") } else { place };
        // Nothing here waits for the other end of a pipe, or takes over a terminal.
        let mut flags = OFlag::O_CLOEXEC | OFlag::O_NONBLOCK | OFlag::O_NOCTTY;
        let mut mode = Mode::empty();
        match access {
            Access::Read => flags |= OFlag::O_RDONLY,
            Access::Replace => flags |= OFlag::O_WRONLY | OFlag::O_CREAT,
            Access::Append => flags |= OFlag::O_WRONLY | OFlag::O_CREAT | OFlag::O_APPEND,
        }
        if access != Access::Read {
            mode = Mode::from_bits_truncate(0o644);
        }
        let how = OpenHow::new()
            .flags(flags)
            .mode(mode)
            .resolve(ResolveFlag::RESOLVE_BENEATH | ResolveFlag::RESOLVE_NO_SYMLINKS);
        match openat2(&self.folder, place, how) {
            Ok(file) => Ok(File::from(file)),
            // An old kernel: the best that it can do.
            Err(Errno::ENOSYS) => self.open_simply(place, flags, mode).map(File::from),
            Err(error) => Err(error.into()),
        }
    }

    fn open_simply(&self, place: &Path, flags: OFlag, mode: Mode) -> io::Result<OwnedFd> {
        Ok(nix::fcntl::openat(&self.folder, place, flags | OFlag::O_NOFOLLOW, mode)?)
    }
}

/// What something is, in one word.
pub(super) fn kind(metadata: &Metadata) -> &'static str {
    let kind = metadata.file_type();
    if kind.is_dir() {
        "folder"
    } else if kind.is_file() {
        "file"
    } else if kind.is_symlink() {
        "link"
    } else {
        "other"
    }
}

/// An error of the system without its number.
pub(super) fn plain(error: &io::Error) -> String {
    let text = error.to_string();
    let text = text.split(" (os error").next().unwrap_or(&text);
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_lowercase().chain(letters).collect())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use tempfile::TempDir;

    use super::*;

    /// A folder to share next to one that is not.
    fn place() -> (TempDir, Root) {
        let folder = TempDir::new().unwrap();
        std::fs::create_dir_all(folder.path().join("shared/sub")).unwrap();
        std::fs::write(folder.path().join("shared/a.txt"), "a").unwrap();
        std::fs::write(folder.path().join("secret"), "s").unwrap();
        let root = Root::new(&folder.path().join("shared")).unwrap();
        (folder, root)
    }

    #[test]
    fn paths_within_are_opened_however_they_are_written() {
        let (folder, root) = place();
        symlink("a.txt", root.path().join("near")).unwrap();
        symlink(root.path().join("sub"), root.path().join("far")).unwrap();
        let whole = root.path().join("a.txt").display().to_string();
        for wanted in ["a.txt", "./a.txt", "sub/../a.txt", "near", "far/../a.txt", whole.as_str()] {
            assert_eq!(root.open(wanted, Access::Read).unwrap().1, Path::new("a.txt"), "{wanted}");
        }
        assert_eq!(root.open(".", Access::Read).unwrap().1, Path::new(""));
        assert_eq!(root.folder("far").unwrap(), root.path().join("sub"));
        drop(folder);
    }

    #[test]
    fn a_root_holds_itself_and_what_is_below() {
        let (folder, root) = place();
        let path = |path: PathBuf| path.display().to_string();
        assert!(root.shares(&path(root.path().to_owned())) && root.shares(&path(root.path().join("sub"))));
        assert!(!root.shares(&path(folder.path().to_owned())) && !root.shares("/no/such/folder"));
    }

    #[test]
    fn nothing_leads_out() {
        let (folder, root) = place();
        let secret = folder.path().join("secret");
        symlink(&secret, root.path().join("link")).unwrap();
        symlink("..", root.path().join("up")).unwrap();
        symlink("/nowhere/at/all", root.path().join("dangling")).unwrap();
        let whole = secret.display().to_string();
        let near = format!("{}-2", root.path().display());
        for wanted in
            ["../secret", "sub/../../secret", "link", "up/secret", "/etc/passwd", "/nope", &whole, &near]
        {
            for access in [Access::Read, Access::Replace, Access::Append] {
                let failure = root.open(wanted, access).unwrap_err();
                assert!(failure.message.contains("outside"), "{wanted} {access:?}: {failure}");
            }
        }
        assert!(root.open("dangling", Access::Replace).is_err());
        assert!(root.open("a\0b", Access::Read).is_err());
        assert_eq!(std::fs::read_to_string(secret).unwrap(), "s");
    }

    #[test]
    fn a_link_that_is_put_in_later_is_not_followed() {
        let (folder, root) = place();
        symlink(folder.path().join("secret"), root.path().join("late")).unwrap();
        for access in [Access::Read, Access::Replace] {
            assert!(root.open_place(Path::new("late"), access).is_err());
            assert!(root.open_place(Path::new("../secret"), access).is_err());
        }
    }

    #[test]
    fn errors_are_for_people() {
        let (_folder, root) = place();
        assert_eq!(root.open("b.txt", Access::Read).unwrap_err().message, "b.txt: no such file or directory");
        assert_eq!(root.folder("a.txt").unwrap_err().message, "a.txt: not a folder");
    }
}
