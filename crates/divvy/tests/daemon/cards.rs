//! The machine's cards, asked of a real daemon: by the command, by the agent's client, and by frames of a test's own.
//!
//! Which cards there are is the machine's matter; that both clients are told the same is tested on any.

use serde_json::{Value, json};

use crate::fake::{Root, until};

#[test]
fn the_daemon_tells_which_cards_there_are_or_why_it_cannot() {
    let root = Root::new("cards");
    let _daemon = root.daemon(&[]);
    let home = root.home().display().to_string();
    let told = || root.ask(&json!("cards"))["cards"].clone();
    // The first answer may come before the driver's.
    until("the driver was asked", || {
        let detail = told()["detail"].clone();
        detail.as_str().is_none_or(|why| !why.contains("ask again"))
    });
    let list = told();
    let output = root.run(&["tenant", "cards", "--json", "--home", &home]);
    let printed: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&printed["cards"], &printed["schema"]), (&list["cards"], &json!(1)));
    assert_eq!(output.status.code(), Some(i32::from(!list["detail"].is_null())), "{list}");
    for card in list["cards"].as_array().unwrap() {
        assert!(card["uuid"].as_str().unwrap().starts_with("GPU-"), "{card}");
        assert_eq!(card["health"] == "healthy", list["detail"].is_null(), "{card}");
    }
    for bad in [json!({ "cards": {} }), json!("card"), json!(["cards"])] {
        assert_eq!(root.ask(&bad)["error"]["code"], "bad-request", "{bad}");
    }
    assert_eq!(told()["cards"], list["cards"], "and goes on");
}
