//! A tenant alone under a cap has its cap, or what it can have without one, whatever its kernels' lengths do.
//!
//! Programs are drawn (`divvy_searcher::lone`); of each, what it had over the run but its beginning. All but few are
//! within their tolerance, and those within twice that (`oracle`). `FROM` and `SEEDS` choose others; each row is printed.

mod workers;

use divvy_searcher::judge::{self, Verdict};
use divvy_searcher::oracle::{LONE_ON_ONE_STREAM, LONE_ON_SEVERAL};

const SEEDS: u64 = 64;

#[test]
fn a_lone_tenant_has_its_cap_whatever_its_kernels_do() {
    let mut rows = workers::of_seeds(workers::chosen(SEEDS), judge::alone);
    rows.sort_by(|a, b| a.points.abs().total_cmp(&b.points.abs()));
    for Verdict { seed, text, is_one_stream, .. } in &rows {
        let streams = if *is_one_stream { "  one" } else { "more than one" };
        println!("seed {seed:5} {streams} stream: {text}");
    }
    let far = |is_one: bool| {
        let of_those = rows.iter().filter(move |row| row.is_one_stream == is_one && !row.holds());
        of_those.collect::<Vec<_>>()
    };
    let of_one = far(true);
    assert!(LONE_ON_ONE_STREAM.holds(&of_one, rows.len()), "of one stream: {of_one:#?}");
    let several = rows.iter().filter(|row| !row.is_one_stream).count();
    let mean = rows.iter().map(|row| row.points.abs()).sum::<f64>() / rows.len() as f64;
    println!("{} rows, {mean:.3} points on average; {several} of several streams", rows.len());
    let of_several = far(false);
    assert!(LONE_ON_SEVERAL.holds(&of_several, several), "of several streams: {of_several:#?}");
}
