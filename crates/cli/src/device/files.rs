//! The tools `read_file`, `list_directory` and `write_file`.

use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::os::fd::AsRawFd as _;
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use switchboard_client::aip::ToolFailure;

use super::root::{Access, Root, kind, plain};

/// A part of a file.
pub(super) fn read(root: &Root, path: &str, offset: u64, limit: Option<u64>) -> Result<Value, ToolFailure> {
    let failed = |error: std::io::Error| ToolFailure::new(format!("{path}: {}", plain(&error)));
    let (mut file, place) = root.open(path, Access::Read)?;
    let size = regular(&file, path)?;
    file.seek(SeekFrom::Start(offset)).map_err(failed)?;
    let limit = limit.unwrap_or(DEFAULT_READ).min(MAX_READ);
    let mut bytes = Vec::new();
    // One more tells whether there is more: sizes of the files of a kernel say nothing.
    file.take(limit + 1).read_to_end(&mut bytes).map_err(failed)?;
    let mut more = bytes.len() as u64 > limit;
    bytes.truncate(usize::try_from(limit).unwrap_or(usize::MAX));
    let text = match std::str::from_utf8(&bytes) {
        Ok(_) => true,
        // The last character is only cut in two, and comes with the next part.
        Err(error) if more && error.error_len().is_none() && error.valid_up_to() > 0 => {
            bytes.truncate(error.valid_up_to());
            true
        }
        Err(_) => false,
    };
    let next = offset.saturating_add(bytes.len() as u64);
    more |= size > next;
    let (encoding, content) = if text {
        ("utf-8", String::from_utf8_lossy(&bytes).into_owned())
    } else {
        ("base64", STANDARD.encode(&bytes))
    };
    Ok(json!({
        "path": shown(&place),
        "size": size.max(next),
        "offset": offset,
        "encoding": encoding,
        "content": content,
        "next_offset": more.then_some(next),
    }))
}

/// What is in a folder.
pub(super) fn list(root: &Root, path: &str) -> Result<Value, ToolFailure> {
    let failed = |error: std::io::Error| ToolFailure::new(format!("{path}: {}", plain(&error)));
    let (folder, place) = root.open(path, Access::Read)?;
    if !folder.metadata().map_err(failed)?.is_dir() {
        return Err(ToolFailure::new(format!("{path}: not a folder")));
    }
    // The folder that was opened, even if another has its name by now.
    let opened = format!("/proc/self/fd/{}", folder.as_raw_fd());
    let mut found = Vec::new();
    let mut more = false;
    for entry in std::fs::read_dir(opened).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        if found.len() >= MAX_ENTRIES {
            more = true;
            break;
        }
        // What is gone already is not there.
        if let Ok(metadata) = entry.metadata() {
            let name = entry.file_name().to_string_lossy().into_owned();
            found.push((name, kind(&metadata), metadata.len()));
        }
    }
    found.sort();
    let lines = found.iter().map(|(name, kind, size)| match *kind {
        "folder" => format!("{name}/\n"),
        "link" => format!("{name}@\n"),
        "file" => format!("{name}  {size}\n"),
        _ => format!("{name}\n"),
    });
    let listing: String = lines.collect();
    let entries = found.iter().map(|(name, kind, size)| match *kind {
        "file" => json!({ "name": name, "type": kind, "size": size }),
        _ => json!({ "name": name, "type": kind }),
    });
    let entries: Vec<Value> = entries.collect();
    Ok(json!({ "path": shown(&place), "entries": entries, "listing": listing, "more": more }))
}

/// Writes a file.
pub(super) fn write(root: &Root, path: &str, content: &str, access: Access) -> Result<Value, ToolFailure> {
    let failed = |error: std::io::Error| ToolFailure::new(format!("{path}: {}", plain(&error)));
    let (mut file, place) = root.open(path, access)?;
    regular(&file, path)?;
    if access == Access::Replace {
        // Only now: what is no file was not to be emptied.
        file.set_len(0).map_err(failed)?;
    }
    file.write_all(content.as_bytes()).map_err(failed)?;
    let size = file.metadata().map_err(failed)?.len();
    Ok(json!({ "path": shown(&place), "bytes_written": content.len(), "size": size }))
}

/// The size of what is a file, and nothing that waits or acts when it is read.
fn regular(file: &File, path: &str) -> Result<u64, ToolFailure> {
    match file.metadata() {
        Ok(metadata) if metadata.is_file() => Ok(metadata.len()),
        Ok(metadata) if metadata.is_dir() => Err(ToolFailure::new(format!("{path}: a folder, not a file"))),
        Ok(_) => Err(ToolFailure::new(format!("{path}: not a regular file"))),
        Err(error) => Err(ToolFailure::new(format!("{path}: {}", plain(&error)))),
    }
}

fn shown(place: &Path) -> String {
    if place.as_os_str().is_empty() { ".".to_owned() } else { place.display().to_string() }
}

/// Bytes that are read unless told otherwise.
pub(super) const DEFAULT_READ: u64 = 64 << 10;
/// Bytes that are read at most.
pub(super) const MAX_READ: u64 = 1 << 20;
/// Bytes that are written at most.
pub(super) const MAX_WRITE: usize = 4 << 20;
/// Entries of a folder that are listed at most.
pub(super) const MAX_ENTRIES: usize = 1_000;

#[cfg(test)]
mod tests {
    use tempfile::TempDir;

    use super::*;

    fn root() -> (TempDir, Root) {
        let folder = TempDir::new().unwrap();
        let root = Root::new(folder.path()).unwrap();
        (folder, root)
    }

    #[test]
    fn files_are_read_in_parts() {
        let (folder, root) = root();
        std::fs::write(folder.path().join("a"), "0123456789").unwrap();
        let part = read(&root, "a", 2, Some(3)).unwrap();
        assert_eq!(part["content"], "234");
        assert_eq!((&part["size"], &part["next_offset"]), (&json!(10), &json!(5)));
        let rest = read(&root, "a", 5, None).unwrap();
        assert_eq!((&rest["content"], &rest["next_offset"]), (&json!("56789"), &Value::Null));
        assert_eq!(read(&root, "a", 99, None).unwrap()["content"], "");
    }

    #[test]
    fn no_part_is_larger_than_the_bound() {
        let (folder, root) = root();
        std::fs::write(folder.path().join("big"), vec![b'x'; (MAX_READ + 5) as usize]).unwrap();
        let part = read(&root, "big", 0, Some(u64::MAX - 1)).unwrap();
        assert_eq!(part["content"].as_str().unwrap().len() as u64, MAX_READ);
        assert_eq!(part["next_offset"], MAX_READ);
        assert_eq!(
            read(&root, "big", 0, None).unwrap()["content"].as_str().unwrap().len() as u64,
            DEFAULT_READ
        );
    }

    #[test]
    fn characters_are_not_cut_and_bytes_are_encoded() {
        let (folder, root) = root();
        std::fs::write(folder.path().join("a"), "aé").unwrap();
        let part = read(&root, "a", 0, Some(2)).unwrap();
        assert_eq!((&part["content"], &part["next_offset"]), (&json!("a"), &json!(1)));
        std::fs::write(folder.path().join("b"), [0xff, 0]).unwrap();
        let part = read(&root, "b", 0, None).unwrap();
        assert_eq!((&part["encoding"], &part["content"]), (&json!("base64"), &json!("/wA=")));
    }

    #[test]
    fn folders_are_listed_by_name() {
        let (folder, root) = root();
        std::fs::create_dir(folder.path().join("sub")).unwrap();
        std::fs::write(folder.path().join("b.txt"), "12").unwrap();
        std::os::unix::fs::symlink("/", folder.path().join("away")).unwrap();
        let listed = list(&root, ".").unwrap();
        assert_eq!(listed["listing"], "away@\nb.txt  2\nsub/\n");
        assert_eq!(listed["entries"][1], json!({"name": "b.txt", "type": "file", "size": 2}));
        assert_eq!(listed["more"], false);
        for number in 0..=MAX_ENTRIES {
            std::fs::write(folder.path().join(format!("sub/{number}")), "").unwrap();
        }
        let listed = list(&root, "sub").unwrap();
        assert_eq!(
            (listed["entries"].as_array().unwrap().len(), &listed["more"]),
            (MAX_ENTRIES, &json!(true))
        );
        assert_eq!(list(&root, "b.txt").unwrap_err().message, "b.txt: not a folder");
    }

    #[test]
    fn files_are_replaced_or_grow() {
        let (folder, root) = root();
        write(&root, "a", "longer than before", Access::Replace).unwrap();
        assert_eq!(write(&root, "a", "one", Access::Replace).unwrap()["size"], 3);
        assert_eq!(write(&root, "a", " two", Access::Append).unwrap()["size"], 7);
        assert_eq!(std::fs::read_to_string(folder.path().join("a")).unwrap(), "one two");
        assert!(write(&root, "no/a", "", Access::Replace).is_err());
        assert!(write(&root, ".", "", Access::Replace).is_err());
    }

    #[test]
    fn what_is_no_file_is_neither_read_nor_waited_for() {
        let (folder, root) = root();
        let pipe = folder.path().join("pipe");
        nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).unwrap();
        assert_eq!(read(&root, "pipe", 0, None).unwrap_err().message, "pipe: not a regular file");
        assert!(write(&root, "pipe", "x", Access::Replace).is_err());
        assert_eq!(read(&root, ".", 0, None).unwrap_err().message, ".: a folder, not a file");
    }
}
