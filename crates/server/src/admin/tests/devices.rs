use switchboard_core::model::Device;

use super::*;

impl World {
    /// A session in which a device enrolled, so many seconds after the epoch.
    pub(super) async fn device(&self, device: &str, owner: &str, session: &str, at: u64) {
        self.devices(device, owner, session, at, Vec::new()).await;
    }

    async fn devices(&self, device: &str, owner: &str, session: &str, at: u64, more: Vec<Event>) {
        let mut events = vec![
            Event::SessionOpened { owner: owner.into(), epoch: 7, agent: "echo".into(), name: None },
            Event::DeviceJoined {
                principal: owner.into(),
                device: Box::new(Device {
                    callsign: device.into(),
                    protocol: "aip".into(),
                    platform: "linux".into(),
                    facts: json!({"supported_features": ["gui", "cli", 3], "tags": ["lab"], "cpu_count": 8}),
                    profile: json!({"registration_time": "2025-11-06T10:30:00Z"}),
                }),
            },
        ];
        events.extend(more);
        self.write(session, events, at).await;
    }
}

fn left(device: &str) -> Vec<Event> {
    vec![Event::DeviceLeft { device: device.into() }]
}

fn names(answer: &Answer) -> Vec<String> {
    let devices = answer.json()["devices"].as_array().unwrap().clone();
    let name = |row: &Value| format!("{} {}", row["device"], row["principal"]).replace('"', "");
    devices.iter().map(name).collect()
}

#[tokio::test]
async fn devices_are_listed_page_by_page() {
    let world = World::new();
    for (number, device) in ["d.4", "d.2", "d.1", "d.3"].into_iter().enumerate() {
        world.device(device, "ann", &format!("s{number}"), 1).await;
    }
    world.devices("d.5", "ann", "s5", 1, left("d.5")).await;
    world.device("d.2", "bob", "s6", 2).await;

    let page = world.get(Some(ANN), "/admin/v1/devices?limit=3").await;
    assert_eq!(names(&page), ["d.1 ann", "d.2 ann", "d.3 ann"]);
    let cursor = page.json()["next"].as_str().unwrap().to_owned();
    let page = world.get(Some(ANN), &format!("/admin/v1/devices?limit=3&cursor={cursor}")).await;
    assert_eq!(names(&page), ["d.4 ann", "d.5 ann"]);
    assert_eq!(page.json()["next"], Value::Null);

    assert_eq!(names(&world.get(Some(ROOT), "/admin/v1/devices").await).len(), 6);
    assert_eq!(names(&world.get(Some(ROOT), "/admin/v1/devices?principal=bob").await), ["d.2 bob"]);
    let page = world.get(Some(ROOT), "/admin/v1/devices?limit=2").await;
    assert_eq!(names(&page), ["d.1 ann", "d.2 ann"]);
    let cursor = page.json()["next"].as_str().unwrap().to_owned();
    let page = world.get(Some(ROOT), &format!("/admin/v1/devices?limit=1&cursor={cursor}")).await;
    assert_eq!(names(&page), ["d.2 bob"], "the principal decides where names are the same");

    assert_eq!(names(&world.get(Some(ANN), "/admin/v1/devices?online=true&principal=ann").await).len(), 4);
    assert_eq!(names(&world.get(Some(ANN), "/admin/v1/devices?online=false").await), ["d.5 ann"]);
    assert_eq!(
        world.get(Some(ANN), "/admin/v1/devices?principal=bob").await.error(),
        (403, "forbidden".into())
    );
    for wrong in ["limit=0", "online=maybe", "cursor=***", "cursor=YQ", "colour=red"] {
        let answer = world.get(Some(ANN), &format!("/admin/v1/devices?{wrong}")).await;
        assert_eq!(answer.error(), (400, "invalid_request".into()), "{wrong}");
    }
    world.log.close().await.unwrap();
    for path in ["/admin/v1/devices", "/admin/v1/devices/d.1"] {
        assert_eq!(world.get(Some(ANN), path).await.error(), (503, "store_unavailable".into()));
    }
}

#[tokio::test]
async fn a_device_is_shown_with_what_it_says_of_itself() {
    let world = World::new();
    world.device("lab/7", "ann", "s1", 5).await;
    let row = world.get(Some(ANN), "/admin/v1/devices/lab%2F7").await.json();
    let expected = json!({
        "device": "lab/7", "principal": "ann", "session": "s1", "protocol": "aip", "platform": "linux",
        "facts": {"supported_features": ["gui", "cli", 3], "tags": ["lab"], "cpu_count": 8},
        "profile": {"registration_time": "2025-11-06T10:30:00Z"},
        "joined_at": 5_000_000, "reported_at": 5_000_000, "left_at": null, "released_at": null,
        "online": true, "capabilities": ["gui", "cli"], "tags": ["lab"],
    });
    assert_eq!(row, expected);

    let mut more = vec![Event::DeviceReported { device: "d".into(), facts: Box::new(json!("none")) }];
    more.extend(left("d"));
    world.devices("d", "ann", "s2", 6, more).await;
    let row = world.get(Some(ANN), "/admin/v1/devices/d").await.json();
    assert_eq!((&row["online"], &row["left_at"]), (&json!(false), &json!(6_000_000)));
    assert_eq!((&row["facts"], &row["capabilities"], &row["tags"]), (&json!("none"), &json!([]), &json!([])));
}

#[tokio::test]
async fn a_foreign_device_looks_like_an_unknown_one() {
    let world = World::new();
    world.device("d", "ann", "s1", 1).await;
    let foreign = world.get(Some(BOB), "/admin/v1/devices/d").await;
    let unknown = world.get(Some(BOB), "/admin/v1/devices/e").await;
    assert_eq!(foreign.error(), (404, "unknown_device".into()));
    assert_eq!((&foreign.text, &foreign.headers), (&unknown.text, &unknown.headers));
    for device in ["d", "e"] {
        let asked = world.get(Some(BOB), &format!("/admin/v1/devices/{device}?principal=ann")).await;
        assert_eq!(asked.error(), (403, "forbidden".into()), "{device}");
    }
    let bytes = world.get(Some(ANN), "/admin/v1/devices/%FF").await;
    assert_eq!(bytes.error(), (404, "unknown_device".into()));
    let wrong = world.get(Some(ANN), "/admin/v1/devices/d?colour=red").await;
    assert_eq!(wrong.error(), (400, "invalid_request".into()));
}

#[tokio::test]
async fn of_several_devices_of_one_name_the_connected_one_is_shown() {
    let world = World::new();
    world.device("d", "ann", "s1", 1).await;
    world.devices("d", "bob", "s2", 9, left("d")).await;
    world.devices("d", "root", "s3", 5, left("d")).await;
    let owner = async |key, query: &str| {
        let row = world.get(Some(key), &format!("/admin/v1/devices/d{query}")).await.json();
        row["principal"].as_str().unwrap().to_owned()
    };
    assert_eq!(owner(ROOT, "").await, "ann");
    assert_eq!(owner(ROOT, "?principal=root").await, "root");
    assert_eq!(owner(BOB, "").await, "bob");
    let offline = World::new();
    offline.devices("d", "ann", "s1", 9, left("d")).await;
    offline.devices("d", "bob", "s2", 5, left("d")).await;
    let row = offline.get(Some(ROOT), "/admin/v1/devices/d").await.json();
    assert_eq!(row["principal"], "ann", "it enrolled last");
}

#[tokio::test]
async fn what_happens_to_a_device_is_among_the_events() {
    let world = World::new();
    let mut more = vec![Event::DeviceReported { device: "d".into(), facts: Box::new(json!({"tags": []})) }];
    more.extend(left("d"));
    world.devices("d", "ann", "s1", 1, more).await;
    let page = world.get(Some(ANN), "/admin/v1/sessions/s1/events").await.json();
    let joined = &page["events"][1]["event"]["device_joined"];
    assert_eq!((&joined["principal"], &joined["device"]["callsign"]), (&json!("ann"), &json!("d")));
    assert_eq!(page["events"][2]["event"]["device_reported"], json!({"device": "d", "facts": {"tags": []}}));
    assert_eq!(page["events"][3]["event"]["device_left"], json!({"device": "d"}));
    assert_eq!(page["head"], "7-4");
}

#[tokio::test]
async fn aip_092_an_administrator_releases_the_name_of_a_device() {
    let world = World::new();
    world.device("lab-1", "ann", "s1", 1).await;
    world.device("lab-1", "bob", "s2", 2).await;
    let path = "/admin/v1/devices/lab-1/release";
    for key in [ANN, BOB] {
        assert_eq!(
            world.post(key, path).await.error(),
            (403, "forbidden".into()),
            "its owner is no administrator"
        );
    }
    let answer = world.post(ROOT, path).await;
    assert_eq!(
        (answer.status, answer.json()),
        (200, json!({ "device": "lab-1", "released": ["ann", "bob"] }))
    );
    let row = world.get(Some(ANN), "/admin/v1/devices/lab-1").await.json();
    assert!(row["released_at"].is_u64(), "{row}");
    let events = world.get(Some(ROOT), "/admin/v1/sessions/s1/events").await.json();
    let last = &events["events"].as_array().unwrap().last().unwrap()["event"]["device_released"];
    assert_eq!((&last["by"], &last["device"]), (&json!("root"), &json!("lab-1")), "{events}");
    // Again, and for a name that nobody has had.
    for path in [path, "/admin/v1/devices/nobody/release"] {
        assert_eq!(world.post(ROOT, path).await.json()["released"], json!([]));
    }
    assert_eq!(world.get(Some(ROOT), path).await.error(), (405, "post_only".into()));
}
