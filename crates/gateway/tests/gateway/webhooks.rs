//! Webhooks: what is told, to whom, and again and again.

use std::path::Path;

use nightwatt_gateway::config::{EventKind, WebhookConfig};
use serde_json::Value;

use crate::client::get;
use crate::machines::on;
use crate::origin::{Origin, status};
use crate::passthrough_programs::{has, run, succeeded};
use crate::stage::{Setup, Stage, asleep, secs};

fn hook(url: String) -> WebhookConfig {
    WebhookConfig { url, events: None, secret_file: None, ca: None }
}

/// A server that does not wake.
fn broken() -> Setup {
    asleep().power(|power| power.never_wakes = true).site(|site| site.watch = secs(60))
}

/// Reloads with these webhooks.
async fn with(stage: &mut Stage, hooks: Vec<WebhookConfig>) {
    stage.reload(move |config| config.webhook = hooks).await.unwrap();
}

fn letters(receiver: &Origin) -> Vec<Value> {
    receiver.seen().iter().map(|seen| serde_json::from_str(&seen.text()).unwrap()).collect()
}

#[test]
fn who_is_told_of_failures_learns_of_a_server_that_does_not_wake_and_of_its_recovery() {
    broken().play(async |stage| {
        let receiver = Origin::new(&stage.clock);
        receiver.up();
        receiver.says(status(204, ""));
        let url = format!("http://{}/hooks/secret?x=1", receiver.address());
        let loops = WebhookConfig { events: Some(vec![EventKind::WakeLoop]), ..hook(url.clone()) };
        with(stage, vec![hook(url), loops]).await;
        stage.ask(get("/").by_browser()).await;
        stage.at(359).await;
        assert!(receiver.seen().is_empty());
        // Three commands of two minutes each, and the next look.
        stage.at(371).await;
        assert_eq!(stage.state(), "failed");
        let seen = receiver.only();
        assert_eq!((&*seen.method, &*seen.target), ("POST", "/hooks/secret?x=1"));
        assert_eq!(seen.field("content-type"), Some("application/json"));
        assert_eq!(seen.field("nightwatt-signature"), None);
        let letter = letters(&receiver).remove(0);
        assert_eq!(letter["event"], "server-failed");
        assert_eq!(letter["of"], "blog");
        assert!(letter["text"].as_str().unwrap().starts_with("blog: the server does not wake"));
        assert!(letter["at_ms"].as_i64().unwrap() >= crate::stage::NOON.0);

        stage.power.come_up();
        stage.at(421).await;
        assert_eq!(stage.state(), "awake");
        stage.at(431).await;
        assert_eq!(letters(&receiver)[1]["event"], "server-recovered");
        assert_eq!(receiver.seen().len(), 2, "who is told of loops only is told nothing");
    });
}

#[test]
fn of_a_machine_it_is_told_what_that_means() {
    on(&["metal"], "never_wakes = true", asleep()).play(async |stage| {
        let receiver = Origin::new(&stage.clock);
        receiver.up();
        receiver.says(status(204, ""));
        let url = format!("http://{}/", receiver.address());
        let failures = Some(vec![EventKind::ServerFailed]);
        with(stage, vec![WebhookConfig { events: failures, ..hook(url) }]).await;
        stage.ask(get("/").by_browser()).await;
        // Three commands of two minutes each, and the next look.
        stage.at(371).await;
        assert_eq!(stage.states()[0], "failed");
        let letters = letters(&receiver);
        let of_machine = letters.iter().find(|it| it["of"] == "metal").expect("a letter");
        let text = "metal: the machine does not wake. No server or service on it can be reached. \
                    `nightwatt wake metal` tries it by hand, `nightwatt doctor` checks every step.";
        assert_eq!(of_machine["text"], text);
    });
}

#[test]
fn what_is_not_taken_is_told_again_and_what_is_refused_is_not() {
    broken().play(async |stage| {
        let busy = Origin::new(&stage.clock);
        let strict = Origin::new(&stage.clock);
        for receiver in [&busy, &strict] {
            receiver.up();
        }
        let tries = std::sync::atomic::AtomicU32::new(0);
        busy.script(move |_| {
            let nth = tries.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            status(if nth < 2 { 503 } else { 200 }, "").acts()
        });
        strict.says(status(410, "gone"));
        let hooks = [&busy, &strict].map(|it| hook(format!("http://{}/", it.address())));
        with(stage, hooks.to_vec()).await;
        stage.ask(get("/").by_browser()).await;
        stage.at(400).await;
        // 2 s and 15 s after the one before; the server has not come up.
        assert_eq!(busy.seen().len(), 3);
        let at: Vec<_> = busy.seen().iter().map(|seen| seen.at).collect();
        assert_eq!([at[1].since(at[0]), at[2].since(at[1])], [secs(2), secs(15)]);
        let ids: Vec<_> = letters(&busy).iter().map(|it| it["id"].clone()).collect();
        assert!(ids.iter().all(|id| *id == ids[0]), "{ids:?}");
        stage.at(2000).await;
        assert_eq!((busy.seen().len(), strict.seen().len()), (3, 1));
    });
}

#[test]
fn a_letter_is_signed_as_openssl_signs() {
    if !has("openssl") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let secret = dir.path().join("secret");
    std::fs::write(&secret, "a word\n").unwrap();
    broken().play(async |stage| {
        let receiver = Origin::new(&stage.clock);
        receiver.up();
        let url = format!("http://{}/", receiver.address());
        with(stage, vec![WebhookConfig { secret_file: Some(secret), ..hook(url) }]).await;
        stage.ask(get("/").by_browser()).await;
        stage.at(371).await;
        let seen = receiver.only();
        let body = dir.path().join("body");
        std::fs::write(&body, seen.text()).unwrap();
        let signed = signature(&body, "a word").await;
        assert_eq!(seen.field("nightwatt-signature"), Some(&*format!("sha256={signed}")));
    });
}

async fn signature(body: &Path, secret: &str) -> String {
    let mut openssl = std::process::Command::new("openssl");
    openssl.args(["dgst", "-sha256", "-hmac", secret, "-r"]).arg(body);
    let said = succeeded(&run(openssl).await);
    said.split(' ').next().unwrap().to_owned()
}
