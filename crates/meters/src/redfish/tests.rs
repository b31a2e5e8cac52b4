//! Over real HTTPS, with a service that answers what DMTF's mock-ups answer, in short.

use std::sync::atomic::{AtomicUsize, Ordering};

use crate::device::{Device, Identity, ReceivedRequest, json, line, open, poll, refused, status};

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
fn answer(ask: &ReceivedRequest) -> String {
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
    assert!(error.to_string().contains("no trusted authority signed it"), "{error}");
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

/// A service that wants no password, of one chassis with that `Power`.
fn old(power: &'static str) -> Device {
    Device::http(move |ask| match ask.path.as_str() {
        "/redfish/v1/Chassis/1U" => {
            json(r#"{"Power":{"@odata.id":"/redfish/v1/Chassis/1U/Power"}}"#)
        }
        "/redfish/v1/Chassis/1U/Power" => json(power),
        path => resource(path).map_or_else(|| status(404, "", "{}"), json),
    })
}

fn opened(device: &Device) -> Box<dyn Meter> {
    open(&format!("redfish={}", device.address())).unwrap()
}

/// As an iDRAC7 says it, in short.
const TWICE_900: &str = r#"{"PowerControl":[{"PowerCapacityWatts":1800,"PowerConsumedWatts":135}],
    "PowerSupplies":[
        {"MemberId":"PSU.Slot.1","InputRanges":[{"OutputWattage":750}],"PowerInputWatts":900},
        {"MemberId":"PSU.Slot.2","InputRanges":[{"OutputWattage":750}],"PowerInputWatts":900}]}"#;

#[test]
fn supplies_that_say_more_than_they_can_are_not_believed_and_both_figures_are_told() {
    let device = old(TWICE_900);
    let mut meter = opened(&device);
    assert_eq!(watts(meter.as_mut()), [("1U/power".to_owned(), 135.0)]);
    let remarks = meter.remarks().join("; ");
    for part in ["`PSU.Slot.1` says 900 W and is rated 750 W", "1800 W in all", "135 W"] {
        assert!(remarks.contains(part), "{remarks}");
    }
    // The user may want them all the same, and is told.
    let forced = open(&format!("redfish={},source=supplies", device.address()));
    let mut forced = forced.unwrap();
    assert_eq!(watts(forced.as_mut()), [("1U/supplies".to_owned(), 1800.0)]);
    assert!(forced.remarks().join(" ").contains("not believed"));
}

#[test]
fn figures_that_contradict_each_other_or_say_nothing_are_not_believed() {
    let one = |power| watts(opened(&old(power)).as_mut());
    let system = |expected| vec![("1U/power".to_owned(), expected)];
    // No rating, far above the control; far below it; a controller without a figure for them.
    let far = r#"{"PowerControl":[{"PowerConsumedWatts":135}],"PowerSupplies":[
        {"PowerInputWatts":900},{"PowerInputWatts":900}]}"#;
    assert_eq!(one(far), system(135.0));
    let below = r#"{"PowerControl":[{"PowerConsumedWatts":300}],"PowerSupplies":[
        {"PowerInputWatts":0},{"PowerInputWatts":12}]}"#;
    assert_eq!(one(below), system(300.0));
    let none = r#"{"PowerControl":[{"PowerConsumedWatts":135}],"PowerSupplies":[
        {"PowerInputWatts":65535},{"PowerInputWatts":65535}]}"#;
    assert_eq!(one(none), system(135.0));
    // A supply that waits for the other to fail takes nothing, and the sum is right.
    let spare = r#"{"PowerControl":[{"PowerConsumedWatts":190}],"PowerSupplies":[
        {"PowerInputWatts":0},{"PowerInputWatts":203}]}"#;
    assert_eq!(one(spare), [("1U/supplies".to_owned(), 203.0)]);
    // The control says nothing that can be true: the supplies are read.
    for control in ["0", "65535", "null"] {
        let power: &'static str = Box::leak(
            format!(
                r#"{{"PowerControl":[{{"PowerConsumedWatts":{control}}}],"PowerSupplies":[
                    {{"PowerInputWatts":100}},{{"PowerInputWatts":103}}]}}"#
            )
            .into_boxed_str(),
        );
        assert_eq!(one(power), [("1U/supplies".to_owned(), 203.0)], "{control}");
    }
    let nothing = old(r#"{"PowerControl":[{"PowerConsumedWatts":0}],"PowerSupplies":[]}"#);
    let error = refused(&format!("redfish={}", nothing.address())).to_string();
    assert!(error.contains("is 0 W, which a controller says that has no figure"), "{error}");
}

#[test]
fn a_supply_or_a_chassis_that_cannot_be_read_does_not_silence_the_others() {
    // Nothing but one of two supplies tells what it takes: that is a part, and the other is named.
    let device = old(r#"{"PowerSupplies":[{"MemberId":"PSU1","PowerInputWatts":111},
        {"MemberId":"PSU2","PowerInputWatts":null}]}"#);
    let mut meter = opened(&device);
    assert_eq!(watts(meter.as_mut()), [("1U/PSU1".to_owned(), 111.0)]);
    assert_eq!(meter.channels()[0].scope, Scope::Part);
    assert!(meter.remarks().join(" ").contains("`PSU2` does not report its input"));
    let gone = std::sync::Arc::new(AtomicUsize::new(0));
    let broken = std::sync::Arc::clone(&gone);
    let device = Device::http(move |ask| match ask.path.as_str() {
        "/redfish/v1/Chassis" => json(
            r#"{"Members":[{"@odata.id":"/redfish/v1/Chassis/A"},{"@odata.id":"/redfish/v1/Chassis/B"},
                {"@odata.id":"/redfish/v1/Chassis/C"}]}"#,
        ),
        "/redfish/v1/Chassis/A" => json(r#"{"Power":{"@odata.id":"/redfish/v1/A/Power"}}"#),
        "/redfish/v1/Chassis/C" => json(r#"{"Power":{"@odata.id":"/redfish/v1/C/Power"}}"#),
        "/redfish/v1/C/Power" if broken.load(Ordering::Relaxed) > 0 => status(500, "", "{}"),
        "/redfish/v1/A/Power" => json(r#"{"PowerControl":[{"PowerConsumedWatts":50}]}"#),
        "/redfish/v1/C/Power" => json(r#"{"PowerControl":[{"PowerConsumedWatts":70}]}"#),
        "/redfish/v1/" => json(resource("/redfish/v1/").unwrap()),
        _ => status(404, "", "{}"),
    });
    let mut meter = opened(&device);
    let both = [("A/power".to_owned(), 50.0), ("C/power".to_owned(), 70.0)];
    assert_eq!(watts(meter.as_mut()), both);
    assert!(meter.remarks().join(" ").contains("B is left out"), "{:?}", meter.remarks());
    gone.store(1, Ordering::Relaxed);
    assert_eq!(watts(meter.as_mut()), both[..1]);
}
