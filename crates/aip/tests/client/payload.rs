//! What tools and devices describe (§3.4, §3.5).

use serde_json::{Value, json};
use switchboard_aip::message::{AppWindowControlInfo, ControlInfo, Rect, SystemInfo, ToolInfo, WindowInfo};

#[test]
fn tools_are_described_in_the_order_of_the_reference() {
    let text = r#"{"tool_key":"action::click","tool_name":"click","title":null,"namespace":"UI","tool_type":"action","description":"Clicks","input_schema":{"type":"object"},"output_schema":null,"meta":null,"annotations":null}"#;
    let tool: ToolInfo = serde_json::from_str(text).unwrap();
    assert_eq!((tool.tool_name.as_str(), tool.description.as_deref()), ("click", Some("Clicks")));
    assert_eq!(serde_json::to_string(&tool).unwrap(), text);
    let short = r#"{"tool_key":"k","tool_name":"n","namespace":"x","tool_type":"other"}"#;
    assert!(serde_json::from_str::<ToolInfo>(short).is_ok());
    assert!(serde_json::from_str::<ToolInfo>(r#"{"tool_key":"k","tool_name":"n","namespace":"x"}"#).is_err());
}

#[test]
fn windows_are_controls_with_a_program() {
    let rectangle = Some(Rect { x: -1, y: 2, width: 3, height: 4 });
    let button = ControlInfo { name: Some("OK".to_owned()), rectangle, ..ControlInfo::default() };
    let window_info = WindowInfo { handle: Some(5), process_id: Some(6), rectangle, ..WindowInfo::default() };
    let all = AppWindowControlInfo { window_info, controls: Some(vec![button]) };
    let text = serde_json::to_string(&all).unwrap();
    assert_eq!(serde_json::from_str::<AppWindowControlInfo>(&text).unwrap(), all);
    let value: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(value["window_info"]["rectangle"], json!({"x": -1, "y": 2, "width": 3, "height": 4}));
    let keys = |value: &Value| value.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    let (window, control) = (keys(&value["window_info"]), keys(&value["controls"][0]));
    assert_eq!((window.len(), control.len()), (17, 12));
    assert_eq!(window[..12], control[..]);
}

#[test]
fn a_device_describes_itself() {
    let text = r##"{"device_id":"dev-7","platform":"linux","os_version":"#1 SMP","cpu_count":8,"memory_total_gb":31.2,"hostname":"lab-7","ip_address":"10.0.0.7","supported_features":["gui"],"platform_type":"computer","schema_version":"1.0","custom_metadata":{}}"##;
    let info: SystemInfo = serde_json::from_str(text).unwrap();
    assert_eq!(Value::Object(info.to_object()).to_string(), text);
    let unknown = SystemInfo::unknown("d").to_object();
    let told =
        [&unknown["device_id"], &unknown["hostname"], &unknown["cpu_count"], &unknown["schema_version"]];
    assert_eq!(told, [&json!("d"), &json!("unknown"), &json!(0), &json!("1.0")]);
    assert!(!unknown.contains_key("tags"));
}
