//! Which sites have an SLA.

use super::*;

#[test]
fn an_app_has_an_sla_only_if_the_file_writes_one() {
    let has_sla = |kind: &str, sla: &str, own: &str| {
        let text = GOOD
            .replace("[scenario.server]", &format!("{sla}\n[scenario.server]"))
            .replace("name = \"blog\"", &format!("name = \"blog\"\n{kind}\n{own}"));
        let config = Config::parse(&text, "nightwatt.toml").unwrap();
        let [blog, shop] = [0, 1].map(|it| config.scenario_of(&config.site[it]).sla.enabled);
        assert_eq!(shop, sla != "[scenario.sla]\nenabled = false", "it has no kind: {sla}");
        blog
    };
    let (pages, app) = ("kind = \"pages\"", "kind = \"app\"");
    assert!(has_sla("", "", "") && has_sla(pages, "", ""));
    assert!(!has_sla(app, "", ""));
    assert!(has_sla(app, "[scenario.sla]\nenabled = true", ""));
    assert!(has_sla(app, "[scenario.sla]\nshare = 0.2", ""));
    assert!(!has_sla(app, "[scenario.sla]\nenabled = false", ""));
    // A scenario of its own replaces the file's as a whole.
    assert!(!has_sla(app, "[scenario.sla]\nenabled = true", "scenario.delay_price_j = 1.0"));
    assert!(has_sla(app, "", "scenario.sla.enabled = true"));
    assert!(!has_sla(pages, "", "scenario.sla.enabled = false"));
}
