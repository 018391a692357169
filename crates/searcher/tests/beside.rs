//! Tenants beside each other under a daemon have what weights and caps say, whatever their kernels do.
//!
//! Programs are drawn (`divvy_searcher::beside`); of each, what it had from a second after the last had begun. All
//! but one in thirty cases are within their tolerance, and those within three times that. `FROM` and `SEEDS` choose
//! others; each row is printed.

mod workers;

use divvy_searcher::judge;

const SEEDS: u64 = 60;

fn judge_all(has_caps: bool) {
    let mut rows =
        workers::of_seeds(workers::chosen(SEEDS), |seed| judge::together(seed, has_caps));
    rows.sort_by(|a, b| a.off.total_cmp(&b.off));
    rows.iter().for_each(|row| println!("{:5.2} seed {:4}: {}", row.off, row.seed, row.text));
    let far: Vec<_> = rows.iter().filter(|row| row.off > 1.0).collect();
    assert!(far.len() * 30 <= rows.len(), "{far:#?}");
    // Known: seed 25 with caps, where the one without has 24.6 of 29.7 %, and why is not.
    assert!(rows.iter().all(|row| row.off <= 3.0), "{far:#?}");
}

#[test]
fn weights_hold_whatever_the_others_do() {
    judge_all(false);
}

#[test]
fn weights_and_caps_hold_together() {
    judge_all(true);
}
