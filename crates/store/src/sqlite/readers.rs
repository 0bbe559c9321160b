//! A few connections that only read.

use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use rusqlite::Connection;
use tokio::sync::Semaphore;

use crate::log::StoreError;
use crate::sqlite::{SqliteOptions, schema};

/// Hands a connection to one reader at a time. One is open from the beginning, the others from when they are first
/// needed: where no more files can be opened, readers share those that there are.
pub(super) struct Readers {
    path: PathBuf,
    options: SqliteOptions,
    permits: Arc<Semaphore>,
    pool: Mutex<Pool>,
    returned: Condvar,
}

struct Pool {
    idle: Vec<Connection>,
    /// Idle ones and those in use.
    open: usize,
}

impl Readers {
    pub(super) fn new(path: PathBuf, options: &SqliteOptions) -> Result<Arc<Self>, StoreError> {
        let first = schema::open_reader(&path, options)?;
        Ok(Arc::new(Self {
            path,
            permits: Arc::new(Semaphore::new(options.readers.max(1))),
            options: options.clone(),
            pool: Mutex::new(Pool { idle: vec![first], open: 1 }),
            returned: Condvar::new(),
        }))
    }

    /// Runs a query on the blocking pool, once a connection is free.
    pub(super) async fn run<T: Send + 'static>(
        self: &Arc<Self>,
        query: impl FnOnce(&Connection) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let permit = Arc::clone(&self.permits).acquire_owned().await.map_err(|_| StoreError::Closed)?;
        let readers = Arc::clone(self);
        let task = tokio::task::spawn_blocking(move || {
            let connection = readers.take()?;
            let result = query(&connection);
            readers.put_back(connection);
            drop(permit);
            result
        });
        task.await.map_err(|_| StoreError::Failed("a read was cut off".into()))?
    }

    pub(super) fn are_closed(&self) -> bool {
        self.permits.is_closed()
    }

    /// Lets running queries finish and closes all connections.
    pub(super) async fn close(&self) {
        let all = u32::try_from(self.options.readers.max(1)).unwrap_or(u32::MAX);
        let permits = self.permits.acquire_many(all).await;
        self.close_now();
        drop(permits);
    }

    /// Closes idle connections, and the others as soon as their queries are done.
    pub(super) fn close_now(&self) {
        self.permits.close();
        let mut pool = self.pool();
        pool.open -= pool.idle.len();
        pool.idle.clear();
        self.returned.notify_all();
    }

    /// A connection that nobody uses; waits for one if no more can be opened.
    fn take(&self) -> Result<Connection, StoreError> {
        let mut pool = self.pool();
        loop {
            if let Some(connection) = pool.idle.pop() {
                return Ok(connection);
            }
            match schema::open_reader(&self.path, &self.options) {
                Ok(connection) => {
                    pool.open += 1;
                    return Ok(connection);
                }
                Err(error) if pool.open == 0 => return Err(error),
                Err(_) => pool = self.returned.wait(pool).unwrap_or_else(PoisonError::into_inner),
            }
        }
    }

    fn put_back(&self, connection: Connection) {
        let mut pool = self.pool();
        if self.permits.is_closed() {
            pool.open -= 1;
        } else {
            pool.idle.push(connection);
        }
        // Everybody, since nobody passes it on: at the end there is nothing left to be put back.
        self.returned.notify_all();
    }

    fn pool(&self) -> MutexGuard<'_, Pool> {
        self.pool.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Readers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Readers").field("path", &self.path).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test]
    async fn where_no_more_can_be_opened_readers_share_what_there_is() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log.db");
        Connection::open(&path)
            .unwrap()
            .execute_batch("CREATE TABLE t (n); INSERT INTO t VALUES (7)")
            .unwrap();
        let readers = Readers::new(path.clone(), &SqliteOptions::default()).unwrap();
        // Whoever has it open keeps it; nobody else finds it.
        std::fs::rename(&path, folder.path().join("elsewhere.db")).unwrap();
        let ask = || {
            readers.run(|connection| {
                std::thread::sleep(Duration::from_millis(5));
                Ok(connection.query_row("SELECT n FROM t", [], |row| row.get::<_, i64>(0))?)
            })
        };
        let answers = tokio::join!(ask(), ask(), ask(), ask());
        for answer in [answers.0, answers.1, answers.2, answers.3] {
            assert_eq!(answer.unwrap(), 7);
        }
        readers.close().await;
        assert!(matches!(ask().await, Err(StoreError::Closed)));
    }
}
