//! What a client runs for its user: handlers, and the work that runs beside the connection.

use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use tokio::task::{AbortHandle, JoinSet};

/// A function of the user's that answers calls.
pub(crate) struct Handler<C, R>(Arc<dyn Fn(C) -> BoxFuture<'static, R> + Send + Sync>);

impl<C, R> Handler<C, R> {
    pub(crate) fn new<F, D>(handler: F) -> Self
    where
        F: Fn(C) -> D + Send + Sync + 'static,
        D: Future<Output = R> + Send + 'static,
    {
        Self(Arc::new(move |call| Box::pin(handler(call))))
    }

    /// Runs it to its end; no answer if it panics, also before its first await.
    pub(crate) async fn run(self, call: C) -> Option<R> {
        AssertUnwindSafe(async move { (self.0)(call).await }).catch_unwind().await.ok()
    }
}

impl<C, R> Clone for Handler<C, R> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<C, R> fmt::Debug for Handler<C, R> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Handler(…)")
    }
}

/// Work that runs beside the connection, by name. Dropped, all of it is stopped.
pub(crate) struct Tasks<K, T> {
    tasks: JoinSet<(K, T)>,
    running: BTreeMap<K, AbortHandle>,
}

impl<K: Clone + Ord + Send + 'static, T: Send + 'static> Tasks<K, T> {
    pub(crate) fn new() -> Self {
        Self { tasks: JoinSet::new(), running: BTreeMap::new() }
    }

    pub(crate) fn start(&mut self, name: K, work: impl Future<Output = T> + Send + 'static) {
        let of = name.clone();
        let task = self.tasks.spawn(async move { (of, work.await) });
        self.running.insert(name, task);
    }

    pub(crate) fn len(&self) -> usize {
        self.running.len()
    }

    /// Stops what is named so; it says nothing any more.
    pub(crate) fn stop(&mut self, is_named: impl Fn(&K) -> bool) {
        self.running.retain(|name, task| {
            let stop = is_named(name);
            if stop {
                task.abort();
            }
            !stop
        });
    }

    /// The next one that is done; none while nothing runs. May be dropped at any time.
    pub(crate) async fn next(&mut self) -> Option<(K, T)> {
        loop {
            // Those that were stopped have nothing to say.
            if let Ok((name, done)) = self.tasks.join_next().await?
                && self.running.remove(&name).is_some()
            {
                return Some((name, done));
            }
        }
    }

    /// Stops everything and waits until it has.
    pub(crate) async fn shutdown(&mut self) {
        self.tasks.shutdown().await;
    }
}
