//! Over real HTTPS, with a service that answers what DMTF's mock-ups answer, in short.

use std::sync::atomic::{AtomicUsize, Ordering};

use crate::device::{Asked, Device, Identity, json, line, open, poll, refused, status};

use super::*;

const TOKEN: &str = "87f2a3c1";

/// The resources that all of them have.
fn resource(path: &str) -> Option<&'static str> {
    Some(match path {
        "/redfish/v1/" => {
            r#"{"RedfishVersion":"1.15.0","Chassis":{"@odata.id":"/redfish/v1/Chassis"},
                "Links":{"Sessions":{"@odata.id":"/redfish/v1/SessionService/Sessions"}}}"#
        }
        "/redfish/v1/Chassis" => {
            r#"{"Members":[{"@odata.id":"/redfish/v1/Chassis/1U"}],"Members@odata.count":1}"#
        }
        "/redfish/v1/Chassis/1U" => {
            r#"{"Id":"1U","Power":{"@odata.id":"/redfish/v1/Chassis/1U/Power"},
                "PowerSubsystem":{"@odata.id":"/redfish/v1/Chassis/1U/PowerSubsystem"},
                "EnvironmentMetrics":{"@odata.id":"/redfish/v1/Chassis/1U/EnvironmentMetrics"}}"#
        }
        "/redfish/v1/Chassis/1U/PowerSubsystem" => {
            r#"{"PowerSupplies":{"@odata.id":"/redfish/v1/Chassis/1U/PowerSubsystem/PowerSupplies"}}"#
        }
        "/redfish/v1/Chassis/1U/PowerSubsystem/PowerSupplies" => {
            r#"{"Members":[{"@odata.id":"/redfish/v1/Bay1"},{"@odata.id":"/redfish/v1/Bay2"},
                {"@odata.id":"/redfish/v1/Bay3"}]}"#
        }
        "/redfish/v1/Bay1" => {
            r#"{"Status":{"State":"Enabled"},"Metrics":{"@odata.id":"/redfish/v1/Bay1/Metrics"}}"#
        }
        "/redfish/v1/Bay2" => {
            r#"{"Status":{"State":"Enabled"},"Metrics":{"@odata.id":"/redfish/v1/Bay2/Metrics"}}"#
        }
        "/redfish/v1/Bay3" => r#"{"Status":{"State":"Absent"}}"#,
        "/redfish/v1/Bay1/Metrics" => {
            r#"{"InputPowerWatts":{"Reading":120.5},"OutputPowerWatts":{"Reading":108}}"#
        }
        "/redfish/v1/Bay2/Metrics" => r#"{"InputPowerWatts":{"Reading":99.5}}"#,
        "/redfish/v1/Chassis/1U/EnvironmentMetrics" => {
            r#"{"PowerWatts":{"Reading":201.0},"EnergykWh":{"Reading":325.2}}"#
        }
        "/redfish/v1/Chassis/1U/Power" => {
            r#"{"PowerControl":[{"PowerConsumedWatts":203}],
                "PowerSupplies":[{"PowerInputWatts":111},{"PowerInputWatts":null}]}"#
        }
        _ => return None,
    })
}

/// The service: a session for `watch`, and the resources with it.
fn answer(ask: &Asked) -> String {
    let sessions = "/redfish/v1/SessionService/Sessions";
    if ask.path == "/redfish/v1/" {
        return json(resource(&ask.path).unwrap());
    }
    if ask.path == sessions {
        let body: Value = serde_json::from_str(&ask.body).unwrap();
        let known = body == serde_json::json!({"UserName": "watch", "Password": "tell nobody"});
        if !known || ask.method != "POST" {
            return status(401, "", "{}");
        }
        let headers = format!("X-Auth-Token: {TOKEN}\r\nLocation: {sessions}/7\r\n");
        return status(201, &headers, "{}");
    }
    if ask.header("x-auth-token") != Some(TOKEN) {
        return status(401, "WWW-Authenticate: Basic realm=\"bmc\"\r\n", "{}");
    }
    match (ask.method.as_str(), resource(&ask.path)) {
        ("GET", Some(body)) => json(body),
        ("DELETE", _) => status(204, "", ""),
        _ => status(404, "", "{}"),
    }
}

fn text(device: &Device, identity: &Identity, password: &std::path::Path) -> String {
    let (ca, password) = (identity.certificate.display(), password.display());
    format!("redfish={},ca={ca},user=watch,password-file={password}", device.address())
}

fn watts(meter: &mut dyn Meter) -> Vec<(String, f64)> {
    let power = |(name, reading)| match reading {
        Reading::Power(watts) => (name, watts.get()),
        other => panic!("{other:?}"),
    };
    poll(meter).unwrap().into_iter().map(power).collect()
}

fn supplies(meter: &mut dyn Meter) {
    // 120.5 W + 99.5 W; the third bay is empty.
    assert_eq!(watts(meter), [("1U/supplies".to_owned(), 220.0)]);
}

#[test]
fn what_goes_into_all_supplies_is_summed_within_one_session() {
    let Some(identity) = Identity::self_signed() else { return };
    let device = Device::https(&identity, answer);
    let password = line("tell nobody");
    let text = text(&device, &identity, password.path());
    let mut meter = open(&text).unwrap();
    supplies(meter.as_mut());
    supplies(meter.as_mut());
    assert_eq!(meter.channels()[0].scope, Scope::Wall);
    drop(meter);
    let asked = device.asked();
    assert_eq!(asked.iter().filter(|ask| ask.method == "POST").count(), 1);
    let last = asked.last().unwrap();
    assert_eq!(last.method, "DELETE");
    assert_eq!(last.path, "/redfish/v1/SessionService/Sessions/7");
    assert!(asked.iter().all(|ask| ask.header("authorization").is_none()));
}

#[test]
fn another_source_can_be_asked_for_and_older_ones_are_found() {
    let Some(identity) = Identity::self_signed() else { return };
    let device = Device::https(&identity, answer);
    let password = line("tell nobody");
    let text = text(&device, &identity, password.path());
    for (source, expected) in [("environment", 201.0), ("control", 203.0)] {
        let mut meter = open(&format!("{text},source={source}")).unwrap();
        assert_eq!(watts(meter.as_mut()), [("1U/power".to_owned(), expected)]);
        assert_eq!(meter.channels()[0].scope, Scope::System);
    }
    assert!(refused(&format!("{text},source=fans")).to_string().contains("`environment`"));
    let error = refused(&format!("{text},chassis=2U")).to_string();
    assert!(error.contains("no chassis `2U`: there are `1U`"), "{error}");

    // A controller of 2015: `Power` only, both supplies telling their input.
    let old = Device::https(&identity, |ask| match ask.path.as_str() {
        "/redfish/v1/Chassis/1U" => {
            json(r#"{"Power":{"@odata.id":"/redfish/v1/Chassis/1U/Power"}}"#)
        }
        "/redfish/v1/Chassis/1U/Power" => json(
            r#"{"PowerControl":[{"PowerConsumedWatts":203}],"PowerSupplies":[
                {"PowerInputWatts":111},{"PowerInputWatts":"98.5"},
                {"Status":{"State":"Absent"},"PowerInputWatts":null}]}"#,
        ),
        _ => answer(ask),
    });
    let mut meter = open(&self::text(&old, &identity, password.path())).unwrap();
    assert_eq!(watts(meter.as_mut()), [("1U/supplies".to_owned(), 209.5)]);
}

#[test]
fn a_session_that_ended_is_begun_anew_and_a_wrong_password_is_told() {
    let Some(identity) = Identity::self_signed() else { return };
    let gets = AtomicUsize::new(0);
    let device = Device::https(&identity, move |ask| {
        let is_reading = ask.path.ends_with("/Bay1/Metrics");
        // The first asks whether it is there; before the third the controller forgets us.
        if is_reading && gets.fetch_add(1, Ordering::Relaxed) == 2 {
            return status(401, "", "{}");
        }
        answer(ask)
    });
    let password = line("tell nobody");
    let mut meter = open(&text(&device, &identity, password.path())).unwrap();
    for _ in 0..3 {
        supplies(meter.as_mut());
    }
    assert_eq!(device.asked().iter().filter(|ask| ask.method == "POST").count(), 2);
    let wrong = line("tell everybody");
    let error = refused(&text(&device, &identity, wrong.path()));
    assert!(error.hint().unwrap().contains("check `user`"), "{error}");
    assert!(!format!("{error:?}").contains("everybody"), "{error:?}");
    let bare = format!("redfish={},ca={}", device.address(), identity.certificate.display());
    let error = refused(&bare);
    assert!(error.hint().unwrap().contains("password-file="), "{error}");
}

#[test]
fn a_certificate_that_nobody_vouches_for_is_refused_unless_the_user_insists() {
    let Some(identity) = Identity::self_signed() else { return };
    let device = Device::https(&identity, answer);
    let password = line("tell nobody");
    let options = format!("user=watch,password-file={}", password.path().display());
    let error = refused(&format!("redfish={},{options}", device.address()));
    assert!(matches!(error, MeterError::Denied { .. }), "{error}");
    assert!(error.to_string().contains("nobody who is trusted vouches for it"), "{error}");
    assert!(error.hint().unwrap().contains("insecure=true"), "{error}");

    assert_eq!(device.asked().len(), 0, "nothing was said to a stranger");
    let Some(other) = Identity::self_signed() else { return };
    let ca = other.certificate.display();
    refused(&format!("redfish={},ca={ca},{options}", device.address()));
    let insecure = format!("redfish={},insecure=true,{options}", device.address());
    supplies(open(&insecure).unwrap().as_mut());
    let both = refused(&format!("{insecure},ca={ca}")).to_string();
    assert!(both.contains("drop one"), "{both}");
    let plain = insecure.replace("https://", "http://").replace(",insecure=true", "");
    assert!(refused(&plain).to_string().contains("say `https://`"));
}

#[test]
fn a_certificate_that_calls_itself_an_authority_is_refused_with_advice() {
    let Some(identity) = Identity::own_authority() else { return };
    let device = Device::https(&identity, answer);
    let password = line("tell nobody");
    let error = refused(&text(&device, &identity, password.path()));
    assert!(error.to_string().contains("CaUsedAsEndEntity"), "{error}");
    assert!(error.hint().unwrap().contains("CA:TRUE"), "{error}");
}

#[test]
fn links_that_lead_elsewhere_are_not_followed() {
    let Some(identity) = Identity::self_signed() else { return };
    let device = Device::https(&identity, |ask| match ask.path.as_str() {
        "/redfish/v1/Chassis" => json(r#"{"Members":[{"@odata.id":"https://evil.example/x"}]}"#),
        _ => answer(ask),
    });
    let password = line("tell nobody");
    let error = refused(&text(&device, &identity, password.path())).to_string();
    assert!(error.contains("a link that leads elsewhere"), "{error}");
    let error = Device::https(&identity, |_| json("{}"));
    let error = refused(&text(&error, &identity, password.path())).to_string();
    assert!(error.contains("no Redfish"), "{error}");
}
