//! `docs/recipes.md`: every configuration in it can be used as it stands.

use super::super::Config;

#[test]
fn every_recipe_is_a_configuration() {
    let page = include_str!("../../../../../docs/recipes.md");
    let mut count = 0;
    for part in page.split("```toml\n").skip(1) {
        let (text, _) = part.split_once("```").unwrap();
        let read = Config::parse(text, "recipe").map(drop);
        assert!(read.is_ok(), "{}\n{text}", read.unwrap_err());
        count += 1;
    }
    assert_eq!(count, page.matches("\n## ").count(), "one for each heading");
}
