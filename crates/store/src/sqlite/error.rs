//! What SQLite's errors mean to a caller. Their texts name statements and files, never values.

use rusqlite::ErrorCode;
use rusqlite::ffi::SQLITE_IOERR_SHMSIZE;

use crate::log::StoreError;

impl From<rusqlite::Error> for StoreError {
    fn from(error: rusqlite::Error) -> Self {
        let Some(fault) = error.sqlite_error() else { return Self::Failed(error.to_string()) };
        // The index of the write-ahead log is a file too, whose growth fails in other words.
        if fault.code == ErrorCode::DiskFull || fault.extended_code == SQLITE_IOERR_SHMSIZE {
            return Self::Full;
        }
        if matches!(fault.code, ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) {
            return Self::Corrupt(error.to_string());
        }
        Self::Failed(error.to_string())
    }
}
