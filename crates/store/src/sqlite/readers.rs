//! A few connections that only read.

use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rusqlite::Connection;
use tokio::sync::Semaphore;

use crate::log::StoreError;
use crate::sqlite::{SqliteOptions, schema};

/// Hands a connection to one reader at a time; connections are opened when first needed.
pub(super) struct Readers {
    path: PathBuf,
    options: SqliteOptions,
    permits: Arc<Semaphore>,
    idle: Mutex<Vec<Connection>>,
}

impl Readers {
    pub(super) fn new(path: PathBuf, options: &SqliteOptions) -> Arc<Self> {
        Arc::new(Self {
            path,
            permits: Arc::new(Semaphore::new(options.readers.max(1))),
            options: options.clone(),
            idle: Mutex::new(Vec::new()),
        })
    }

    /// Runs a query on the blocking pool, once a connection is free.
    pub(super) async fn run<T: Send + 'static>(
        self: &Arc<Self>,
        query: impl FnOnce(&Connection) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let permit = Arc::clone(&self.permits).acquire_owned().await.map_err(|_| StoreError::Closed)?;
        let readers = Arc::clone(self);
        let task = tokio::task::spawn_blocking(move || {
            let idle = readers.idle().pop();
            let connection = match idle {
                Some(connection) => connection,
                None => schema::open_reader(&readers.path, &readers.options)?,
            };
            let result = query(&connection);
            if !readers.permits.is_closed() {
                readers.idle().push(connection);
            }
            drop(permit);
            result
        });
        task.await.map_err(|_| StoreError::Failed("a read was cut off".into()))?
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
        self.idle().clear();
    }

    fn idle(&self) -> MutexGuard<'_, Vec<Connection>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Readers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Readers").field("path", &self.path).finish_non_exhaustive()
    }
}
