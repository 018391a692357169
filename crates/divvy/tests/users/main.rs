//! One user against another's tenants, by every way that was found: counted, and none may succeed.
//!
//! Each test plays in mounts and processes of its own, as root and two users: it starts this program
//! again there as its referee ([`world`]), and the referee starts it again as the attackers
//! ([`attacker`]). [`changes`] are attempts to change and to read what is another's through the machine's
//! daemon, [`by_id`] the same of tenants that it keeps by an id, [`crowds`] to keep others out of it,
//! [`clients`] to speak to others' commands in its place. Where such a stage cannot be had the tests say so.

mod attacker;
mod by_id;
#[path = "../calls/mod.rs"]
mod calls;
mod changes;
mod clients;
mod crowds;
mod world;

use std::env::var;

/// What an environment variable tells this program to play.
const ROLE: &str = "DIVVY_USERS_ROLE";

#[test]
#[ignore = "a role: referee or attacker, of which the tests start one"]
fn act() {
    let role = var(ROLE).expect("a role");
    let words: Vec<&str> = role.split('\t').collect();
    match words.split_first() {
        Some((&"referee", [play])) => referee(play),
        Some((&"attacker", [way, rest @ ..])) => attacker::act(way, rest),
        _ => panic!("no role: {role:?}"),
    }
}

fn referee(play: &str) {
    match play {
        "limits" => changes::limits(),
        "readings" => changes::readings(),
        "schedule" => changes::schedule(),
        "by-id" => by_id::by_id(),
        "garbage" => changes::garbage(),
        "places" => crowds::places(),
        "processes" => crowds::processes(),
        "aliases" => crowds::aliases(),
        "connections" => crowds::connections(),
        "forgeries" => clients::forgeries(),
        "files" => clients::files(),
        _ => panic!("no play: {play:?}"),
    }
    world::judge();
}

#[test]
fn nobody_changes_anothers_limits() {
    world::play("limits");
}

#[test]
fn nobody_but_root_switches_the_machines_turns() {
    world::play("schedule");
}

#[test]
fn nobody_gets_at_anothers_tenants_by_id() {
    world::play("by-id");
}

#[test]
fn nobody_reads_anothers_numbers_or_files() {
    world::play("readings");
}

#[test]
fn files_that_change_all_the_time_harm_their_owner_alone() {
    world::play("garbage");
}

#[test]
fn nobody_takes_all_places() {
    world::play("places");
}

#[test]
fn nobody_takes_a_daemons_time_by_claims() {
    world::play("processes");
}

#[test]
fn no_alias_keeps_a_tenant_from_being_served() {
    world::play("aliases");
}

#[test]
fn nobody_keeps_others_from_the_socket() {
    world::play("connections");
}

#[test]
fn nobody_speaks_in_a_daemons_place() {
    world::play("forgeries");
}

#[test]
fn no_file_of_anothers_holds_up_roots_commands() {
    world::play("files");
}
