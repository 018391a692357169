//! Instances that are killed at every step, and any order of all that can happen: nothing leaks, nothing is lost.

use proptest::prelude::*;

use super::*;

/// A claim with two requests, one of two cards, and a list of what to preload.
fn large(uid: &str, shares: &str) -> AllocatedClaim {
    let id = |number: u32| format!("{shares}-{number}");
    let mut large = claim(uid);
    large.shares = vec![share("a", A, &id(1)), share("a", B, &id(2)), share("b", B, &id(3))];
    large.config.push(parameters(ParametersOf::Class, &json!({ "preload": "file" })));
    large
}

/// Does `act` with an instance that is killed after n effects, for every n up to that of its natural end; then `after`.
fn killed_everywhere(
    name: &str,
    before: impl Fn(&FakeNode),
    act: impl Fn(&FakeCore),
    after: impl Fn(&FakeNode),
) -> u64 {
    for effects in 1.. {
        let node = FakeNode::new(name);
        before(&node);
        let life = Life::of(effects);
        act(&node.living(&life));
        let is_whole = !life.is_over();
        println!("killed after {effects} effects: {:?}", node.files());
        after(&node);
        if is_whole {
            return effects;
        }
    }
    0
}

fn act(core: &FakeCore, claims: &[AllocatedClaim]) {
    let _ = core.prepare(claims);
}

#[test]
fn prepare_that_is_killed_anywhere_is_finished_by_the_next() {
    let both = [large("a", "s"), claim("b")];
    let steps = killed_everywhere(
        "finish",
        |_| {},
        |core| act(core, &both),
        |node| {
            let first = prepared(&node.core(), &both);
            node.assert_holds(&[&both[0], &both[1]]);
            assert_eq!(prepared(&node.core(), &both), first);
            unprepared(&node.core(), &["a", "b"]);
            node.assert_holds(&[]);
        },
    );
    assert!(steps > 12, "{steps}");
}

#[test]
fn prepare_that_is_killed_anywhere_is_swept_by_unprepare() {
    let both = [large("a", "s"), claim("b")];
    killed_everywhere(
        "sweep",
        |_| {},
        |core| act(core, &both),
        |node| {
            unprepared(&node.core(), &["a", "b"]);
            node.assert_holds(&[]);
        },
    );
}

#[test]
fn unprepare_that_is_killed_anywhere_is_finished_by_the_next_call_of_any_kind() {
    let both = [large("a", "s"), claim("b")];
    let steps = killed_everywhere(
        "unprepare",
        |node| drop(prepared(&node.core(), &both)),
        |core| drop(core.unprepare(&["a".to_owned()])),
        |node| {
            assert_eq!(node.core().sweep(), Ok(0));
            // Before its first step was done nothing has happened; from then on all of it does.
            match node.claims().len() {
                2 => node.assert_holds(&[&both[0], &both[1]]),
                _ => node.assert_holds(&[&both[1]]),
            }
            unprepared(&node.core(), &["a"]);
            node.assert_holds(&[&both[1]]);
        },
    );
    assert!(steps > 6, "{steps}");
}

#[test]
fn another_allocation_of_a_claim_takes_the_place_of_the_one_before() {
    let (old, new) = (large("a", "s"), large("a", "t"));
    killed_everywhere(
        "again",
        |node| drop(prepared(&node.core(), std::slice::from_ref(&old))),
        |core| act(core, std::slice::from_ref(&new)),
        |node| {
            prepared(&node.core(), std::slice::from_ref(&new));
            node.assert_holds(&[&new]);
        },
    );
}

#[test]
fn a_checkpoint_that_is_made_again_may_be_interrupted_anywhere() {
    let both = [large("a", "s"), claim("b")];
    for garbled in [&b"{\"version\": 1, \"cla"[..], b"", b"\0\0\0", b"[]"] {
        killed_everywhere(
            "rebuild",
            |node| {
                prepared(&node.core(), &both);
                std::fs::write(node.places.checkpoint(), garbled).unwrap();
            },
            |core| drop(core.sweep()),
            |node| {
                assert_eq!(node.core().sweep(), Ok(0));
                assert_eq!(std::fs::read(node.places.garbled()).unwrap(), garbled, "kept aside");
                node.assert_holds(&[&both[0], &both[1]]);
                unprepared(&node.core(), &["a"]);
                node.assert_holds(&[&both[1]]);
            },
        );
    }
}

#[test]
fn a_reboot_may_be_interrupted_anywhere() {
    let both = [large("a", "s"), claim("b")];
    killed_everywhere(
        "reboots",
        |node| {
            let last = PreparePlaces { boot_id: "boot-0".to_owned(), ..node.places.clone() };
            let daemon = FakeDaemon { tenants: node.tenants.clone(), life: Life::of(u64::MAX) };
            let disk = FakeDisk { life: Life::of(u64::MAX), broken: None };
            prepared(&PrepareCore::with_disk(last, daemon, disk), &both);
        },
        |core| act(core, &both[1..]),
        |node| {
            prepared(&node.core(), &both[1..]);
            node.assert_holds(&[&both[1]]);
        },
    );
}

/// One thing that happens to a node.
#[derive(Clone, Debug)]
enum Happening {
    Prepare { claim: u8, allocation: u8, effects: u64 },
    Unprepare { claim: u8, effects: u64 },
    Sweep { effects: u64 },
    DaemonGoes,
    DaemonComes,
    CdiFolderIsWiped,
    CheckpointIsLost,
    CheckpointIsGarbled,
    Reboot,
}

fn happening() -> impl Strategy<Value = Happening> {
    use Happening as H;
    let effects = || prop_oneof![1 => 0..20_u64, 2 => Just(u64::MAX)];
    let prepare = (0..3_u8, 0..2_u8, effects());
    let prepare =
        prepare.prop_map(|(claim, allocation, effects)| H::Prepare { claim, allocation, effects });
    let unprepare =
        (0..3_u8, effects()).prop_map(|(claim, effects)| H::Unprepare { claim, effects });
    prop_oneof![
        6 => prepare,
        4 => unprepare,
        1 => effects().prop_map(|effects| H::Sweep { effects }),
        1 => Just(H::DaemonGoes),
        2 => Just(H::DaemonComes),
        1 => Just(H::CdiFolderIsWiped),
        1 => Just(H::CheckpointIsLost),
        1 => Just(H::CheckpointIsGarbled),
        1 => Just(H::Reboot),
    ]
}

fn happens(node: &mut FakeNode, happening: &Happening, boots: usize) {
    let uid = |claim: u8| format!("claim-{claim}");
    match happening {
        Happening::Prepare { claim, allocation, effects } => {
            let claim = large(&uid(*claim), &format!("s{allocation}"));
            act(&node.living(&Life::of(*effects)), &[claim]);
        }
        Happening::Unprepare { claim, effects } => {
            let _ = node.living(&Life::of(*effects)).unprepare(&[uid(*claim)]);
        }
        Happening::Sweep { effects } => drop(node.living(&Life::of(*effects)).sweep()),
        Happening::DaemonGoes => node.known().is_away = true,
        Happening::DaemonComes => node.known().is_away = false,
        Happening::CdiFolderIsWiped => drop(std::fs::remove_dir_all(&node.places.cdi)),
        Happening::CheckpointIsLost => drop(std::fs::remove_file(node.places.checkpoint())),
        Happening::CheckpointIsGarbled => {
            if node.places.state.exists() {
                std::fs::write(node.places.checkpoint(), "{").unwrap();
            }
        }
        Happening::Reboot => {
            node.places.boot_id = format!("boot-{boots}");
            node.known().tenants.clear();
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, ..ProptestConfig::default() })]

    #[test]
    fn whatever_happens_a_prepare_is_whole_and_an_unprepare_leaves_nothing(
        happenings in prop::collection::vec(happening(), 0..16),
    ) {
        let mut node = FakeNode::new("any");
        for (number, happening) in happenings.iter().enumerate() {
            happens(&mut node, happening, number + 2);
        }
        node.known().is_away = false;
        let claims: Vec<_> = (0..3).map(|number| large(&format!("claim-{number}"), "last")).collect();
        prepared(&node.core(), &claims);
        node.assert_holds(&claims.iter().collect::<Vec<_>>());
        unprepared(&node.core(), &["claim-0", "claim-1", "claim-2"]);
        node.assert_holds(&[]);
    }
}
