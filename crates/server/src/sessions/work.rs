//! The work of an agent on one turn, which its own task runs, and its session where it may.
//!
//! A session that tells an agent something, and wants to commit what the agent makes of it together with it, has the
//! agent react on the spot: another task would first have to be woken, and to wake the session again.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use futures_util::task::AtomicWaker;
use parking_lot::Mutex;

/// What an agent does, and what wakes it.
pub(crate) struct Work {
    /// None once it is done or given up.
    future: Mutex<Option<Running>>,
    /// The task of the agent.
    task: AtomicWaker,
    /// Somebody runs it on the spot, and need not wake the task for it.
    on_the_spot: AtomicBool,
    /// There was a reason to go on meanwhile.
    woken: AtomicBool,
}

type Running = Pin<Box<dyn Future<Output = ()> + Send>>;

impl Work {
    pub(crate) fn new(future: impl Future<Output = ()> + Send + 'static) -> Arc<Self> {
        Arc::new(Self {
            future: Mutex::new(Some(Box::pin(future))),
            task: AtomicWaker::new(),
            on_the_spot: AtomicBool::new(false),
            woken: AtomicBool::new(false),
        })
    }

    /// Works until there is nothing left to do; to be run by one task only. Dropped before, it gives the work up.
    pub(crate) async fn run(self: Arc<Self>) {
        struct Abandon(Arc<Work>);

        impl Drop for Abandon {
            fn drop(&mut self) {
                *self.0.future.lock() = None;
            }
        }

        let work = Abandon(self);
        std::future::poll_fn(|context| {
            work.0.task.register(context.waker());
            // Whoever runs it on the spot is done with it in a moment.
            work.0.step(&mut work.0.future.lock())
        })
        .await;
    }

    /// Tells the agent something, and has it react on the spot. Where it is at work already it is only told.
    pub(crate) fn tell(self: &Arc<Self>, tell: impl FnOnce()) {
        let Some(mut future) = self.future.try_lock() else { return tell() };
        self.on_the_spot.store(true, Ordering::SeqCst);
        tell();
        self.woken.store(false, Ordering::SeqCst);
        let over = self.step(&mut future).is_ready();
        drop(future);
        self.on_the_spot.store(false, Ordering::SeqCst);
        // In this order, so that nobody who sees that the task is not to be woken is overlooked.
        if self.woken.swap(false, Ordering::SeqCst) || over {
            self.task.wake();
        }
    }

    fn step(self: &Arc<Self>, future: &mut Option<Running>) -> Poll<()> {
        let Some(running) = future else { return Poll::Ready(()) };
        let waker = Waker::from(Arc::clone(self));
        let stepped = running.as_mut().poll(&mut Context::from_waker(&waker));
        if stepped.is_ready() {
            *future = None;
        }
        stepped
    }
}

impl Wake for Work {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if self.on_the_spot.load(Ordering::SeqCst) {
            self.woken.store(true, Ordering::SeqCst);
            if self.on_the_spot.load(Ordering::SeqCst) {
                return;
            }
        }
        self.task.wake();
    }
}

impl std::fmt::Debug for Work {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Work").field("on_the_spot", &self.on_the_spot).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;
    use std::time::Duration;

    use tokio::sync::{Notify, mpsc};

    use super::*;

    /// Sends on what it receives, and counts its steps.
    fn messenger() -> (Arc<Work>, mpsc::UnboundedSender<u32>, mpsc::UnboundedReceiver<u32>, Arc<AtomicUsize>)
    {
        let (asked, mut questions) = mpsc::unbounded_channel();
        let (answer, answers) = mpsc::unbounded_channel();
        let steps = Arc::new(AtomicUsize::new(0));
        let counter = steps.clone();
        let mut running = Box::pin(async move {
            while let Some(question) = questions.recv().await {
                answer.send(question).ok();
            }
        });
        let work = Work::new(std::future::poll_fn(move |context| {
            counter.fetch_add(1, Ordering::SeqCst);
            running.as_mut().poll(context)
        }));
        (work, asked, answers, steps)
    }

    #[tokio::test]
    async fn what_is_told_is_heard_on_the_spot_and_by_nobody_else() {
        let (work, asked, mut answers, steps) = messenger();
        let task = tokio::spawn(work.clone().run());
        tokio::task::yield_now().await;
        assert_eq!(steps.load(Ordering::SeqCst), 1, "its own task has begun");
        work.tell(|| asked.send(7).unwrap());
        assert_eq!(answers.try_recv(), Ok(7), "no task has run since");
        tokio::task::yield_now().await;
        assert_eq!(steps.load(Ordering::SeqCst), 2, "its task was not woken");
        asked.send(8).unwrap();
        assert_eq!(answers.recv().await, Some(8), "its task is woken by others");
        work.tell(move || drop(asked));
        task.await.unwrap();
    }

    #[tokio::test]
    async fn whoever_is_at_work_is_only_told() {
        let (work, asked, mut answers, steps) = messenger();
        let held = work.future.lock();
        work.tell(|| asked.send(7).unwrap());
        assert_eq!(steps.load(Ordering::SeqCst), 0);
        drop(held);
        tokio::spawn(work.run());
        assert_eq!(answers.recv().await, Some(7));
    }

    #[tokio::test]
    async fn what_happens_while_it_reacts_is_not_overlooked() {
        let again = Arc::new(Notify::new());
        let (first, second) = (Arc::new(Notify::new()), again.clone());
        let told = first.clone();
        let work = Work::new(async move {
            first.notified().await;
            // As others do, from another thread.
            let later = second.clone();
            std::thread::spawn(move || later.notify_one()).join().unwrap();
            tokio::task::yield_now().await;
            second.notified().await;
        });
        let task = tokio::spawn(work.clone().run());
        tokio::task::yield_now().await;
        work.tell(|| told.notify_one());
        tokio::time::timeout(Duration::from_secs(60), task).await.unwrap().unwrap();
    }

    #[tokio::test]
    async fn a_task_that_is_gone_leaves_nothing_behind() {
        let (work, asked, _answers, _) = messenger();
        let task = tokio::spawn(work.clone().run());
        tokio::task::yield_now().await;
        task.abort();
        assert!(task.await.is_err());
        assert!(asked.send(1).is_err(), "nobody is there to receive it");
        assert_eq!(Arc::strong_count(&work), 1);
    }

    #[test]
    fn threads_that_tell_and_wake_at_the_same_time_lose_nothing() {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        runtime.block_on(async {
            let (work, asked, mut answers, _) = messenger();
            tokio::spawn(work.clone().run());
            let teller = asked.clone();
            let told =
                std::thread::spawn(move || (0..10_000).for_each(|n| work.tell(|| teller.send(n).unwrap())));
            let sent = std::thread::spawn(move || (0..10_000).for_each(|n| asked.send(n).unwrap()));
            for _ in 0..20_000 {
                tokio::time::timeout(Duration::from_secs(60), answers.recv()).await.unwrap().unwrap();
            }
            told.join().unwrap();
            sent.join().unwrap();
        });
    }
}
