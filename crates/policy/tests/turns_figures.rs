//! The figures the turns must reach, on a simulated H200; printed as a table and held to their bounds.
#![cfg(not(loom))]

mod turns_sim;

use turns_sim::stats::{jain, variation};
use turns_sim::{MS, Node, Program, SEC, Tenant, US};

const FROM: u64 = SEC;
const TO: u64 = 11 * SEC;

fn run(tenants: &[Tenant], gated: bool) -> Node {
    let mut node = Node::new(tenants, 1, 0x5eed);
    node.gated = gated;
    node.run_until(TO);
    node
}

fn shares(node: &Node, tenants: usize) -> Vec<f64> {
    (0..tenants).map(|row| node.ledger.share(row, FROM, TO)).collect()
}

fn solo(tenant: &Tenant) -> f64 {
    let alone = Tenant { share_ppm: 0, ..tenant.clone() };
    shares(&run(&[alone], true), 1)[0]
}

fn sync(kernel_ns: u64) -> Tenant {
    Tenant::new(Program::Sync { kernel_ns, gap_ns: 1 })
}

fn queue(kernel_ns: u64) -> Tenant {
    Tenant::new(Program::Queue { kernel_ns })
}

/// Prints one row and keeps what missed its bound.
struct Table {
    missed: Vec<String>,
}

impl Table {
    fn new() -> Self {
        println!("{:<58} {:>10} {:>12}", "figure", "reached", "bound");
        Self { missed: Vec::new() }
    }
    fn at_least(&mut self, name: &str, value: f64, bound: f64) {
        println!("{name:<58} {value:>10.4} {:>12}", format!(">= {bound}"));
        if value < bound {
            self.missed.push(format!("{name}: {value:.4} < {bound}"));
        }
    }
    fn at_most(&mut self, name: &str, value: f64, bound: f64) {
        println!("{name:<58} {value:>10.4} {:>12}", format!("<= {bound}"));
        if value > bound {
            self.missed.push(format!("{name}: {value:.4} > {bound}"));
        }
    }
    fn end(self) {
        assert!(self.missed.is_empty(), "missed:\n{}", self.missed.join("\n"));
    }
}

#[test]
fn the_simulated_driver_slices_as_the_real_one() {
    let mut table = Table::new();
    for (name, kernel_ns, low, high) in [
        ("2 x 20 us sync, no gate", 20 * US, 0.11, 0.145),
        ("2 x 100 us sync, no gate", 100 * US, 0.40, 0.45),
        ("2 x 1 ms sync, no gate", MS, 0.85, 0.91),
    ] {
        let sum: f64 = shares(&run(&[sync(kernel_ns), sync(kernel_ns)], false), 2).iter().sum();
        table.at_least(name, sum, low);
        table.at_most(name, sum, high);
    }
    table.end();
}

#[test]
#[expect(clippy::too_many_lines, reason = "a table: one row for each figure")]
fn figures() {
    let mut table = Table::new();

    for kernel in [sync(100 * US), queue(100 * US), sync(MS), queue(5 * MS), sync(5 * MS)] {
        for (small, large) in [(30, 70), (20, 80)] {
            let tenants = [kernel.clone().cap(small), kernel.clone().cap(large)];
            let node = run(&tenants, true);
            let got = shares(&node, 2);
            let name = format!("caps {small}/{large}, {:?}", kernel.program);
            let part = 100.0 * got[0] / (got[0] + got[1]);
            table.at_most(&format!("{name}: split error"), (part - f64::from(small)).abs(), 1.0);
            table.at_least(&format!("{name}: sum/solo"), (got[0] + got[1]) / solo(&kernel), 0.97);
        }
    }

    // Like a step of an eager ResNet-50 training. Natively the host is ahead by more than the tail takes
    // it; in turns it is so only where a turn leaves time for it. The card had 88 and 96 % of their parts
    // for 30 and 70 where this had 92 and 95.
    let eager = Tenant::new(Program::Eager {
        body: (500, 55 * US, 27 * US),
        tail: (150, 12 * US, 33 * US),
    });
    let alone = shares(&run(std::slice::from_ref(&eager), false), 1)[0];
    for (small, large) in [(50, 50), (30, 70), (20, 80)] {
        let got = shares(&run(&[eager.clone().cap(small), eager.clone().cap(large)], true), 2);
        let name = format!("eager trainings of {small}/{large}");
        table.at_least(&format!("{name}: sum/solo"), (got[0] + got[1]) / alone, 0.93);
        table.at_least(&format!("{name}: small"), got[0] / alone * 100.0 / f64::from(small), 0.91);
        table.at_least(&format!("{name}: large"), got[1] / alone * 100.0 / f64::from(large), 0.94);
    }

    for kernel_ns in [20 * US, 100 * US, MS] {
        let alone = solo(&sync(kernel_ns));
        for count in [2, 3] {
            let tenants = vec![sync(kernel_ns); count];
            let got = shares(&run(&tenants, true), count);
            let sum: f64 = got.iter().sum();
            let worst = got
                .iter()
                .map(|g| (100.0 * g / sum - 100.0 / count as f64).abs())
                .fold(0.0, f64::max);
            let name = format!("{count} x {} us sync", kernel_ns / US);
            table.at_least(&format!("{name}: sum/solo"), sum / alone, 0.95);
            table.at_most(&format!("{name}: split error"), worst, 1.0);
        }
    }

    for kernel in [sync(100 * US), queue(MS)] {
        let node = run(&vec![kernel.clone(); 4], true);
        let windows: Vec<Vec<f64>> =
            (0..4).map(|row| node.ledger.windows(row, FROM, TO, SEC)).collect();
        let worst = (0..windows[0].len())
            .map(|i| jain(&windows.iter().map(|w| w[i]).collect::<Vec<_>>()))
            .fold(1.0, f64::min);
        table.at_least(&format!("Jain, 4 x {:?}, worst 1 s", kernel.program), worst, 0.999);
        let node = run(&vec![kernel.clone(); 2], true);
        // Windows of seven turns less a third: where they begin decides by a part of a turn.
        let begins = (0..5).map(|part| FROM + part * 40 * MS);
        let each = begins.flat_map(|from| {
            let of = |row| variation(&node.ledger.windows(row, from, TO, 200 * MS));
            [of(0), of(1)]
        });
        let mean = each.sum::<f64>() / 10.0;
        table.at_most(&format!("CV of 200 ms, 2 x {:?}", kernel.program), mean, 0.05);
    }

    let victim = sync(100 * US);
    for flood in [queue(100 * US), queue(2 * MS), sync(100 * US)] {
        let tenants = [victim.clone(), flood.clone(), flood.clone(), flood.clone()];
        let got = shares(&run(&tenants, true), 4);
        let entitled = solo(&victim) / 4.0;
        table.at_least(&format!("victim beside 3 x {:?}", flood.program), got[0] / entitled, 0.98);
    }

    for (kernel_ns, on_ns) in [(100 * US, 500 * MS), (MS, 500 * MS), (100 * US, 50 * MS)] {
        let half = Tenant::new(Program::Phases { kernel_ns, on_ns, off_ns: on_ns });
        let queued = Tenant::new(Program::Half { kernel_ns, on_ns });
        for (half, busy) in [(half, sync(kernel_ns)), (queued, queue(kernel_ns))] {
            let name = format!("one idles half, {:?}", half.program);
            let node = run(&[half, busy.clone()], true);
            let sum: f64 = shares(&node, 2).iter().sum();
            table.at_least(&name, sum / solo(&busy), 0.98);
        }
    }

    // One that leaves a quarter of its turns unused, beside a queue that fills all that it is given: a
    // trial of everybody open is as good in sum, and only the queue's gain.
    let (sync_20, queue_400) = (sync(20 * US), queue(400 * US));
    let got = shares(&run(&[sync_20.clone().weight(95), queue_400.weight(33)], true), 2);
    let kept = got[0] / solo(&sync_20) * 128.0 / 95.0;
    table.at_least("20 us sync of weight 95 beside a queue of 33, of its part", kept, 0.98);

    // One that works little is behind always, and is served when a look finds that; rarer looks at the
    // queue cost it a sixth of what it gets.
    let little = Tenant::new(Program::Sync { kernel_ns: 20 * US, gap_ns: 500 * US });
    let got = shares(&run(&[little.clone(), queue(20 * US)], true), 2);
    table.at_least("20 us each half millisecond beside a queue", got[0] / solo(&little), 0.2);

    // A request of 2 ms each 50 ms, of the latency class at equal priority; and one that never rests.
    let serve = Program::Serve { kernel_ns: 100 * US, count: 20, period_ns: 50 * MS };
    let (soon, flood) = (Tenant { latency: true, ..Tenant::new(serve) }, queue(100 * US));
    let alone_ns = run(std::slice::from_ref(&soon), true).ledger.latency_ns(0, 0.99);
    let node = run(&[soon, flood.clone()], true);
    let over_ms = (node.ledger.latency_ns(0, 0.99) as f64 - alone_ns as f64) / 1e6;
    table.at_most("latency class beside a flood: p99 + ms", over_ms, 1.6);
    let kept = node.ledger.share(1, FROM, TO) / solo(&flood);
    table.at_least("latency class beside a flood: flood keeps", kept, 0.9);
    let always = Tenant { latency: true, ..sync(100 * US) };
    let got = shares(&run(&[always, flood.clone()], true), 2);
    table.at_least(
        "latency class that never rests, sum",
        got[0] / solo(&sync(100 * US)) + got[1],
        0.97,
    );
    table.at_most("latency class that never rests, share", got[0] / solo(&sync(100 * US)), 0.51);

    // The goals are 0.5 ms and 2.5 ms. In this model a request that arrives just before a slice ends
    // pays three switches of 138 us and what the flood has in flight, whatever the turns do.
    for doorbell in [false, true] {
        for (flood, p99_over, keeps) in [
            (queue(100 * US), 0.75, 0.85),
            (sync(100 * US), 0.65, 0.85),
            (queue(2 * MS), 2.8, 0.80),
        ] {
            let serve = Program::Serve { kernel_ns: 100 * US, count: 100, period_ns: 100 * MS };
            let high = Tenant { doorbell, ..Tenant::new(serve).priority(1) };
            let end = 60 * SEC;
            let mut alone = Node::new(std::slice::from_ref(&high), 1, 0x5eed);
            alone.run_until(end);
            let mut node = Node::new(&[high, flood.clone()], 1, 0x5eed);
            node.run_until(end);
            let solo_ns = alone.ledger.latency_ns(0, 0.99);
            let over = (node.ledger.latency_ns(0, 0.99) as f64 - solo_ns as f64) / 1e6;
            let bell = if doorbell { ", doorbell" } else { "" };
            let name = format!("high priority beside {:?}{bell}", flood.program);
            table.at_most(&format!("{name}: p99 + ms"), over, p99_over);
            let kept = node.ledger.share(1, FROM, end) / solo(&flood);
            table.at_least(&format!("{name}: flood keeps"), kept, keeps);
            table.at_most(&format!("{name}: cpu %"), 100.0 * node.ledger.cpu(), 10.0);
        }
    }

    for pair in [
        [(MS, 3, 7 * MS), (MS, 3, 7 * MS)],
        [(100 * US, 30, 7 * MS), (100 * US, 30, 7 * MS)],
        [(100 * US, 1, 150 * US), (100 * US, 1, 150 * US)],
        [(500 * US, 1, 400 * US), (500 * US, 1, 400 * US)],
        [(2 * MS, 1, 2 * MS), (2 * MS, 1, 3 * MS)],
        [(100 * US, 60, 4 * MS), (MS, 1, 5 * MS)],
        [(5 * MS, 1, 5 * MS), (5 * MS, 1, 5 * MS)],
        [(70 * US, 1, 330 * US), (70 * US, 1, 330 * US)],
        [(40 * US, 1, 360 * US), (40 * US, 1, 360 * US)],
    ] {
        let tenants: Vec<Tenant> = pair
            .iter()
            .map(|(kernel_ns, count, pause_ns)| {
                Tenant::new(Program::Burst {
                    kernel_ns: *kernel_ns,
                    count: *count,
                    pause_ns: *pause_ns,
                })
            })
            .collect();
        let node = run(&tenants, true);
        let gated: f64 = shares(&node, 2).iter().sum();
        let driver: f64 = shares(&run(&tenants, false), 2).iter().sum();
        let name = format!("{pair:?}");
        // The first trial of those that use a tenth of the card each may show too little.
        let at_least = if pair[0].0 < 50 * US { 0.95 } else { 0.99 };
        table.at_least(&format!("not full, {name}"), gated / driver, at_least);
    }

    let node = run(&vec![sync(100 * US); 8], true);
    table.at_most("daemon, 8 x 100 us sync: cpu %", 100.0 * node.ledger.cpu(), 2.0);
    let node = run(&vec![queue(100 * US); 8], true);
    table.at_most("daemon, 8 x 100 us queue: cpu %", 100.0 * node.ledger.cpu(), 2.0);
    table.end();
}

/// A tenant that pauses on another device of the domain has its turn filled again and again. Meanwhile the holder here
/// carries on, and what a tenant of the latency class waits still counts from the beginning of its turn.
#[test]
fn turns_that_are_filled_elsewhere_do_not_delay_the_latency_class() {
    let serve = Program::Serve { kernel_ns: 100 * US, count: 5, period_ns: 50 * MS };
    let bursts = |count, pause_ns| {
        Tenant::new(Program::Burst { kernel_ns: 200 * US, count, pause_ns }).on(&[1])
    };
    let tenants = [
        Tenant { latency: true, ..Tenant::new(serve) },
        queue(100 * US),
        bursts(3, 900 * US),
        bursts(2, 700 * US),
        Tenant::new(Program::Burst { kernel_ns: 100 * US, count: 1, pause_ns: 30 * MS })
            .on(&[0, 1]),
    ];
    let mut node = Node::new(&tenants, 2, 0x5eed);
    node.run_until(20 * SEC);
    let p99_ns = node.ledger.latency_ns(0, 0.99);
    assert!(p99_ns < 4 * MS, "{p99_ns} ns");
}
