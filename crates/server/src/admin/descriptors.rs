//! How many file descriptors this process holds, and how many it may.

use nix::sys::resource::{Resource, getrlimit};

/// Those that it holds, where the system tells.
pub(super) fn open() -> Option<u64> {
    let listed = std::fs::read_dir("/proc/self/fd").or_else(|_| std::fs::read_dir("/dev/fd")).ok()?;
    // The list itself needs one while it is read.
    u64::try_from(listed.count()).ok().map(|count| count.saturating_sub(1))
}

/// Those that it may hold.
pub(super) fn limit() -> Option<u64> {
    getrlimit(Resource::RLIMIT_NOFILE).ok().map(|(soft, _)| soft)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_opened_is_counted_below_the_limit() {
        let before = open().unwrap();
        let files: Vec<std::fs::File> = (0..40).map(|_| std::fs::File::open("/dev/null").unwrap()).collect();
        // Other tests of this process open and close things meanwhile.
        assert!(open().unwrap() >= before + 10, "{before}");
        assert!(limit().unwrap() > open().unwrap());
        drop(files);
    }
}
