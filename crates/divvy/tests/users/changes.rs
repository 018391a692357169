//! Attempts to change or read, through the machine's daemon and root's commands, what is another's: by
//! exchanging what was judged for a link to it.

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Child;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use divvy_page::owner::Owner;

use crate::world::{
    self, ATTACKER, Ends, SECRET, STOLEN, TRIES, VICTIM, WEIGHT, attack, directory, finish, run,
    served, tenant, tenants, until, verdict, word,
};

/// Runs of a command in place of questions to a daemon.
const RUNS: usize = TRIES;
const LONG: Duration = Duration::from_secs(200);

/// A pair of names that an attacker exchanges, and the path it asks for.
struct Way {
    what: &'static str,
    uid: u32,
    target: PathBuf,
    asked: PathBuf,
    pair: [PathBuf; 2],
}

/// Lays out every way, each with a victim's tenant and an attacker of its own.
fn ways() -> Vec<Way> {
    let way = |at: u32, what: &'static str| {
        let (uid, name) = (ATTACKER + at, format!("job-{at}"));
        let (target, asked) = (tenant(VICTIM, &name), tenant(uid, &name));
        Way { what, uid, target, asked, pair: Default::default() }
    };
    let home = |way: &Way| PathBuf::from(format!("/dev/shm/divvy-{}", way.uid));
    let mut ways = Vec::new();

    let mut own = way(0, "its directory for a link");
    own.pair = [own.asked.clone(), tenants(own.uid).join("link")];
    symlink(&own.target, &own.pair[1]).unwrap();
    ways.push(own);

    let mut all = way(1, "its directory of tenants for a link");
    all.pair = [tenants(all.uid), home(&all).join("link")];
    symlink(tenants(VICTIM), &all.pair[1]).unwrap();
    ways.push(all);

    let mut root = way(2, "all its tenants' place for a link");
    root.pair = [home(&root), PathBuf::from("/dev/shm/link")];
    symlink(format!("/dev/shm/divvy-{VICTIM}"), &root.pair[1]).unwrap();
    std::os::unix::fs::lchown(&root.pair[1], Some(root.uid), Some(root.uid)).unwrap();
    ways.push(root);

    let mut file = way(3, "its limits for a link");
    file.pair = [file.asked.join("config"), file.asked.join("link")];
    symlink(file.target.join("config"), &file.pair[1]).unwrap();
    ways.push(file);

    // As on a machine whose kernel lets users link what is not theirs.
    let mut hard = way(4, "its limits for a second name of the victim's");
    hard.pair = [hard.asked.join("config"), hard.asked.join("link")];
    std::fs::hard_link(hard.target.join("config"), &hard.pair[1]).unwrap();
    ways.push(hard);
    ways
}

/// Counts how often the weight of the tenant at `target` is another, and puts it right again.
fn watch(target: &Path, is_over: &AtomicBool, changed: &AtomicUsize) {
    let path = std::ffi::CString::new(word(target)).unwrap();
    while !is_over.load(SeqCst) {
        if world::limits(target).weight != WEIGHT {
            changed.fetch_add(1, SeqCst);
            Owner::open(&path).unwrap().update(|config| config.weight = WEIGHT).unwrap();
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

fn played(child: Child) -> String {
    let (code, told) = finish(child, LONG);
    assert_eq!(code, Some(0), "{told}");
    let result = told.lines().find(|line| line.starts_with("tried ")).unwrap_or_default();
    result.to_owned()
}

pub(crate) fn limits() {
    let ways = ways();
    // One that only asks for what is not its own, by each name it has.
    let plain = tenant(VICTIM, "plain");
    let _daemon = world::daemon(&[]);
    for way in &ways {
        let asked = word(&way.asked).to_owned();
        until("the attackers' tenants are served", || served(way.uid).contains(&asked));
    }
    let is_over = AtomicBool::new(false);
    let changed: Vec<AtomicUsize> = ways.iter().map(|_| AtomicUsize::new(0)).collect();
    let tries = TRIES.to_string();
    std::thread::scope(|scope| {
        for (way, changed) in ways.iter().zip(&changed) {
            scope.spawn(|| watch(&way.target, &is_over, changed));
        }
        let attackers: Vec<Child> = ways
            .iter()
            .map(|way| {
                let [one, other] = &way.pair;
                attack(way.uid, &["set", word(&way.asked), word(one), word(other), &tries])
            })
            .collect();
        for (way, attacker) in ways.iter().zip(attackers) {
            println!("{}: {}", way.what, played(attacker));
        }
        is_over.store(true, SeqCst);
    });
    for (way, changed) in ways.iter().zip(&changed) {
        verdict(way.what, changed.load(SeqCst), TRIES);
    }
    let names = [
        word(&plain).to_owned(),
        format!("{}/", word(&plain)),
        format!("/dev/shm/divvy-{ATTACKER}/../divvy-{VICTIM}/tenants/plain"),
        "/proc/self/root".to_owned() + word(&plain),
    ];
    let asked = |name: &String| {
        let arguments = ["set", name.as_str(), "--weight", STOLEN];
        run(ATTACKER, &arguments).0 == Some(0)
    };
    let tried = names.iter().cycle().take(20).filter(|name| asked(name)).count();
    verdict("the victim's by its names", tried, 20);
    assert_eq!(world::limits(&plain).weight, WEIGHT);
    roots_command(&ways);
}

/// Root names an attacker's tenant to its own commands, while it leads to the victim's now and then.
fn roots_command(ways: &[Way]) {
    let Some(way) = ways.first() else { return };
    let [one, other] = &way.pair;
    let _attacker = Ends(attack(way.uid, &["swap", word(one), word(other)]));
    let (is_over, changed) = (AtomicBool::new(false), AtomicUsize::new(0));
    let mut done = 0;
    std::thread::scope(|scope| {
        scope.spawn(|| watch(&way.target, &is_over, &changed));
        for _ in 0..RUNS {
            let (code, told) = run(0, &["set", word(&way.asked), "--weight", STOLEN]);
            assert!(code.is_some(), "{told}");
            done += usize::from(code == Some(0));
        }
        is_over.store(true, SeqCst);
    });
    println!("root's command: {done} of {RUNS} changed the attacker's own");
    verdict("root's command at a path that leads elsewhere", changed.load(SeqCst), RUNS);
}

pub(crate) fn schedule() {
    let _daemon = world::daemon(&[]);
    let is = |to: &str| world::view().is_some_and(|view| view["schedule"] == to);
    let switch = |uid, to| run(uid, &["daemon", "--system", "--schedule", to]);
    let (code, told) = switch(ATTACKER, "off");
    let is_told = told.contains(&format!("by uid 0 and by root, not by uid {ATTACKER}"));
    assert!(code != Some(0) && is_told, "{code:?} {told}");
    world::daemon_goes_through(3);
    assert!(is("on"), "another user has switched it");
    for to in ["off", "on"] {
        let (code, told) = switch(0, to);
        assert_eq!(code, Some(0), "{told}");
        until("root has switched it", || is(to));
    }
}

pub(crate) fn readings() {
    let secret = Path::new("/run/secret");
    directory(secret, 0);
    std::fs::set_permissions(secret, std::os::unix::fs::PermissionsExt::from_mode(0o700)).unwrap();
    std::fs::write(secret.join("config"), "TOP SECRET, and more of it").unwrap();
    let target = tenant(VICTIM, "job");
    let link = |uid: u32, to: &Path| {
        let own = tenant(uid, "job");
        let link = tenants(uid).join("link");
        symlink(to, &link).unwrap();
        [own, link]
    };
    let directories = link(ATTACKER, &target);
    let files = link(ATTACKER + 1, &target);
    let files = [files[0].join("config"), files[0].join("other")];
    symlink(target.join("config"), &files[1]).unwrap();
    let roots = link(ATTACKER + 2, secret);
    let _daemon = world::daemon(&[]);
    until("all are served", || (0..3).all(|at| !served(ATTACKER + at).is_empty()));

    let _swap = Ends(attack(ATTACKER + 2, &["swap", word(&roots[0]), word(&roots[1])]));
    let tries = TRIES.to_string();
    let readers = [(ATTACKER, &directories), (ATTACKER + 1, &files)]
        .map(|(uid, [one, other])| attack(uid, &["read", word(one), word(other), SECRET, &tries]));
    // Roots's own files in what the daemon says of a tenant: bytes of them, in the words of a refusal.
    let (mut leaked, bytes) = (0, format!("{:02x?}", b"TOP "));
    for _ in 0..TRIES {
        let view = world::view().unwrap_or_default().to_string();
        leaked += usize::from(view.contains(bytes.trim_matches(['[', ']'])));
        std::thread::sleep(Duration::from_millis(4));
    }
    verdict("bytes of root's files", leaked, TRIES);
    for (what, reader) in ["its directory for a link", "its limits for a link"].iter().zip(readers)
    {
        let told = played(reader);
        let leaked = told.rsplit(' ').next().and_then(|count| count.parse().ok());
        verdict(&format!("the victim's name, by {what}"), leaked.expect("a count"), TRIES);
    }
}

pub(crate) fn garbage() {
    let own = tenant(VICTIM, "job");
    let spoilt: Vec<PathBuf> = (0..3).map(|at| tenant(ATTACKER, &format!("spoilt-{at}"))).collect();
    let mut daemon = world::daemon(&[]);
    until("the victim is served", || served(VICTIM).len() == 1);
    let _spoilers: Vec<Ends> =
        spoilt.iter().map(|tenant| Ends(attack(ATTACKER, &["spoil", word(tenant)]))).collect();
    let mut missed = 0;
    for _ in 0..TRIES {
        let mut view = world::view();
        // A busy daemon may have no connection left: its view without the victim is what counts.
        until("the daemon answers", || {
            let has_answered = view.as_ref().is_some_and(|view| view["tenants"].is_array());
            if !has_answered {
                println!("no view: {view:?}");
                view = world::view();
            }
            has_answered
        });
        if world::served_in(&view, VICTIM) != [word(&own)] {
            println!("without the victim: {view:?}");
            missed += 1;
        }
        std::thread::sleep(Duration::from_millis(3));
    }
    verdict("the victim left alone", missed, TRIES);
    for arguments in [&["ps"][..], &["ps", "--json"], &["top", "--once", "--interval", "0.1"]] {
        for _ in 0..10 {
            let (code, told) = run(0, arguments);
            assert_eq!(code, Some(0), "{arguments:?}: {told}");
        }
    }
    assert!(daemon.0.try_wait().unwrap().is_none(), "the daemon goes on");
    let (code, told) = run(VICTIM, &["set", word(&own), "--weight", "8"]);
    assert!(code == Some(0) && told.contains("weight 8"), "{told}");
}
