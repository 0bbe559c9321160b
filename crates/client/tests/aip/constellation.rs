//! A constellation: tasks, their ends, and what the device is like.

use serde_json::{Value, json};
use switchboard_client::aip::{
    Cause, ClientError, CommandError, Connect, ConnectError, Constellation, ConstellationConfig, DeviceState,
    Ending, Event, FailureKind, NewTask, NoInfo, TaskUpdate,
};

use crate::support::{Peer, Server, constellation, event, soon};

async fn pair(server: &Server) -> (Constellation, Peer, Value) {
    let connect = Constellation::connect(Connect::new(server.url()), constellation());
    let (constellation, (peer, register)) = tokio::join!(connect, server.accept());
    (constellation.expect("connect"), peer, register)
}

#[tokio::test]
async fn a_task_is_accepted_and_ends_with_its_result() {
    let server = Server::start().await;
    let (constellation, mut peer, register) = pair(&server).await;
    assert_eq!(
        (&register["client_type"], &register["target_id"]),
        (&json!("constellation"), &json!("dev-7"))
    );
    let task = NewTask { session_id: Some("s1".to_owned()), ..NewTask::new("do it") };
    let mut task = constellation.run(task).await.expect("a task");
    assert_eq!(task.session_id(), "s1");
    let asked = peer.heard("task").await;
    assert_eq!((&asked["request"], &asked["target_id"]), (&json!("do it"), &json!("dev-7")));
    peer.ok(Some("s1")).await;
    assert_eq!(soon(task.next()).await, Some(TaskUpdate::Accepted));
    assert_eq!(constellation.snapshot(), DeviceState::Busy);
    peer.end("s1", "completed", json!([{"request": "do it", "result": "done"}]), None).await;
    let result = soon(task.result()).await.expect("a result");
    assert_eq!(result[0]["result"], "done");
    assert_eq!(constellation.snapshot(), DeviceState::Idle);
    let (closed, ()) = tokio::join!(peer.closed(), constellation.close());
    assert_eq!(closed, Some(1000));
    assert_eq!(constellation.run(NewTask::new("more")).await.err(), Some(ClientError::Closed));
}

#[tokio::test]
async fn tasks_wait_for_each_other_and_fail_with_a_reason() {
    let server = Server::start().await;
    let (constellation, mut peer, _) = pair(&server).await;
    let first = constellation.run(NewTask::new("one")).await.expect("a task");
    let second = constellation.run(NewTask::new("two")).await.expect("a task");
    assert_eq!(peer.heard("task").await["request"], "one");
    peer.end(first.session_id(), "failed", Value::Null, Some("no such tool")).await;
    let error = soon(first.result()).await.expect_err("a failure");
    assert_eq!((error.kind, error.error.as_str()), (FailureKind::ExecutionError, "no such tool"));
    assert_eq!(peer.heard("task").await["request"], "two");
    let lost = "Task was cancelled because target device disconnected";
    peer.end(second.session_id(), "failed", Value::Null, Some(lost)).await;
    assert_eq!(soon(second.result()).await.expect_err("lost").kind, FailureKind::DeviceDisconnection);
    let empty = constellation.run(NewTask::new("")).await.err();
    assert_eq!(empty, Some(ClientError::Command(CommandError::Empty)));
}

#[tokio::test]
async fn a_task_is_cancelled_by_hand_or_by_dropping_it() {
    let server = Server::start().await;
    let (constellation, mut peer, _) = pair(&server).await;
    let mut task = constellation.run(NewTask::new("one")).await.expect("a task");
    peer.heard("task").await;
    task.cancel("enough");
    let end = peer.heard("task_end").await;
    assert_eq!((&end["status"], &end["error"]), (&json!("failed"), &json!("enough")));
    assert_eq!(end["session_id"], task.session_id());
    peer.end(task.session_id(), "failed", Value::Null, Some("cancelled: enough")).await;
    let Some(TaskUpdate::Ended(Ending::Failed { error, .. })) = soon(task.next()).await else {
        panic!("it did not fail");
    };
    assert_eq!(error, "cancelled: enough");
    let task = constellation.run(NewTask::new("two")).await.expect("a task");
    peer.heard("task").await;
    drop(task);
    assert_eq!(peer.heard("task_end").await["status"], "failed");
}

#[tokio::test]
async fn aip_084_tasks_fail_before_the_connection_comes_back() {
    let server = Server::start().await;
    let (constellation, mut peer, _) = pair(&server).await;
    let mut events = constellation.events();
    let running = constellation.run(NewTask::new("one")).await.expect("a task");
    let waiting = constellation.run(NewTask::new("two")).await.expect("a task");
    peer.heard("task").await;
    peer.hang_up(1001).await;
    // Nobody has accepted anything yet.
    for task in [running, waiting] {
        assert_eq!(soon(task.result()).await.expect_err("lost").kind, FailureKind::DeviceDisconnection);
    }
    let Event::Disconnected { cause: Cause::Closed(_), .. } = event(&mut events).await else {
        panic!("not lost");
    };
    let (mut peer, register) = server.accept().await;
    assert_eq!(register["client_id"], "run@dev-7");
    assert_eq!(event(&mut events).await, Event::Connected);
    let task = constellation.run(NewTask::new("three")).await.expect("a task");
    assert_eq!(peer.heard("task").await["request"], "three");
    peer.end(task.session_id(), "completed", Value::Null, None).await;
    assert!(soon(task.result()).await.is_ok());
}

#[tokio::test]
async fn the_device_is_described_or_not() {
    let server = Server::start().await;
    let (constellation, mut peer, _) = pair(&server).await;
    let (info, ()) = tokio::join!(constellation.device_info(), async {
        let asked = peer.heard("device_info_request").await;
        peer.say(json!({"type": "device_info_response", "status": "ok", "response_id": asked["request_id"],
            "result": {"cpu_count": 8}}))
            .await;
    });
    assert_eq!(info.expect("info")["cpu_count"], 8);
    let (info, ()) = tokio::join!(constellation.device_info(), async {
        let asked = peer.heard("device_info_request").await;
        peer.say(json!({"type": "device_info_response", "status": "error", "error": "unknown",
            "response_id": asked["request_id"], "result": {"error": "unknown"}}))
            .await;
    });
    assert_eq!(info.err(), Some(ClientError::NoInfo(NoInfo::Unknown("unknown".to_owned()))));
    let (info, ()) = tokio::join!(constellation.device_info(), async {
        peer.heard("device_info_request").await;
        peer.hang_up(1001).await;
    });
    assert_eq!(info.err(), Some(ClientError::NoInfo(NoInfo::Disconnected)));
}

#[tokio::test]
async fn a_device_that_is_not_there_is_said_to_be_so() {
    let server = Server::start().await;
    let config = ConstellationConfig::new("run@none", "none");
    let refuse = async {
        let mut peer = server.upgrade().await;
        peer.heard("register").await;
        let error = "Target device 'none' is not connected";
        peer.say(json!({"type": "error", "status": "error", "error": error})).await;
    };
    let (refused, ()) = tokio::join!(Constellation::connect(Connect::new(server.url()), config), refuse);
    let Err(ConnectError::Failed(cause)) = refused else { panic!("{refused:?}") };
    assert_eq!(cause.to_string(), "the server refused: Target device 'none' is not connected");
    assert!(cause.is_temporary());
}
